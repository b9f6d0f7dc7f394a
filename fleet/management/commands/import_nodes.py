"""`manage.py import_nodes FILE... --cluster NAME`: what nodes are, where they stand, and when they were kept from work.

A file is a CSV with a head, Slurm's topology.conf, or the text of `sacctmgr show events -P`; its first line says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandParser

from events.actions import declare_cluster
from events.adapters import Draft, Refusal
from events.adapters.node_files import COLUMNS, described, leaves
from events.adapters.slurm_nodes import node_events
from events.adapters.textfiles import TextFile, TooLong, Unreadable
from events.intake import now_us
from events.management.importing import ImportCommand, Lines, first_line
from fleet.nodes import known_nodes

_MOST: int = 200_000
"""Lines of a list of node events that are held at once; a hall of 2,000 nodes writes some 40,000 a year."""


class Command(ImportCommand):
    """Import descriptions and past states of nodes."""

    help = (
        f"Import nodes: a CSV with a head (node and any of {', '.join(COLUMNS[1:])}), Slurm's topology.conf (leaf "
        "switches), or the text of `SLURM_TIME_FORMAT=%%s sacctmgr show events -P` with its head (when nodes were down "
        "or drained). What a file does not say stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        super().add_arguments(parser)
        parser.add_argument("--cluster", required=True, help="the cluster's name; declared when it is new")

    def records(self, text: TextFile, options: dict[str, Any]) -> tuple[str, Iterable[Draft | Refusal]]:
        """The records of one file; the cluster is declared once the file is known to be one of these."""
        cluster = options["cluster"]
        found = self._found(text, cluster)
        declare_cluster(cluster, actor=self.command_name)
        return f"nodes:{cluster}", found

    def _found(self, text: TextFile, cluster: str) -> Iterable[Draft | Refusal]:
        first, lines = first_line(text)
        if "|" in first and "NodeName" in first:
            return node_events("text/plain", {"x-hallbook-cluster": cluster}, _whole(lines, text.name))
        if first.lstrip().startswith("#") or "switchname=" in first.lower():
            return leaves(lines, cluster, known_nodes(), now_us())
        next(iter(lines))
        try:
            return list(described(first, lines, cluster, known_nodes(), now_us()))
        except ValueError as error:
            raise Unreadable(f"{text.name}: {error}") from None


def _whole(lines: Lines, name: str) -> bytes:
    kept: list[str] = []
    for number, line in lines:
        if number > _MOST:
            raise Unreadable(f"{name}: more than {_MOST} lines; cut it in parts with their head")
        kept.append(line.head if isinstance(line, TooLong) else line)
    return "\n".join(kept).encode()

"""`manage.py import_accounts FILE`: accounts, users and shares of a Slurm become events, and a project tree."""

from __future__ import annotations

import time
from argparse import BooleanOptionalAction
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import projector
from events.actions import declare_cluster
from events.adapters import Draft, Refusal
from events.adapters.sacctmgr import NoAssociations, accounts_of, read_associations
from events.adapters.textfiles import TextFile, Unreadable, open_text
from events.intake import Voice, record
from events.types.projects import check_day
from jobs import accounts

MOST_CHARACTERS = 256 << 20
SHOWN = 20


class Command(BaseCommand):
    """Import a dump of sacctmgr, the associations of slurmrestd, or `sacctmgr show assoc -P`."""

    help = (
        "Import accounts, users and shares: `sacctmgr dump CLUSTER file=F`, /slurmdb/vX/associations, or "
        "`sacctmgr show assoc -P`. Accounts that belong to no project get one. Repeating it is harmless."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("file", metavar="FILE", help="also gzipped; - is standard input")
        parser.add_argument("--cluster", default="", help="only this one; needed where the text names none")
        parser.add_argument("--projects", action=BooleanOptionalAction, default=True, help="make projects (default)")
        parser.add_argument("--from", dest="day", default=accounts.EARLIEST, metavar="DAY", help="map from this day on")
        parser.add_argument("--complete", action="store_true", help="withdraw what is known and not in this file")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Import; exit 2 when the file cannot be read as a whole."""
        name = options["file"]
        try:
            check_day(options["day"])
        except ValueError as error:
            raise CommandError(f"--from: {error}", returncode=2) from None
        found = self._read(name, options["cluster"])
        kept = [one for one in found if isinstance(one, Draft)]
        refused = [one for one in found if isinstance(one, Refusal)]
        clusters = sorted({str(getattr(one.data, "cluster", "")) for one in kept})
        for cluster in clusters:
            declare_cluster(cluster, actor="import_accounts")
        told = accounts.report(kept, complete=options["complete"])
        self._refuse(name, refused, clusters)
        self.stdout.write(
            f"{name}: {len(kept)} associations of {', '.join(clusters)}: {told.new} new, {told.changed} changed, "
            f"{told.known} known, {len(refused)} rejected"
        )
        if told.missing:
            done = "withdrawn" if told.withdrawn else "kept; --complete withdraws them"
            self.stdout.write(f"{told.missing} known associations are not in this file: {done}")
        if options["projects"]:
            self._map(found, options["day"])
        projector.catch_up()

    def _read(self, name: str, cluster: str) -> list[Draft | Refusal]:
        try:
            with open_text(name) as text:
                whole = _whole(text)
            found = read_associations(whole, cluster, time.time_ns() // 1000)
        except (Unreadable, NoAssociations) as error:
            told = str(error) if str(error).startswith(name) else f"{name}: {error}"
            raise CommandError(told, returncode=2) from None
        if not found:
            of = f" of {cluster}" if cluster else ""
            raise CommandError(f"{name}: no association{of} in it", returncode=2)
        return found

    def _refuse(self, name: str, refused: list[Refusal], clusters: list[str]) -> None:
        source = f"sacctmgr:{clusters[0]}" if clusters else "sacctmgr"
        record([(Voice(source, "import_accounts", name), one) for one in refused])
        for one in refused[:SHOWN]:
            self.stderr.write(f"  line {one.index}: {one.text}")
        if len(refused) > SHOWN:
            self.stderr.write(f"  and {len(refused) - SHOWN} more; all of them: GET /api/v1/rejections")

    def _map(self, found: list[Draft | Refusal], day: str) -> None:
        of_cluster: dict[str, list[Any]] = {}
        for (cluster, _), one in accounts_of(found).items():
            of_cluster.setdefault(cluster, []).append(one)
        for cluster, members in sorted(of_cluster.items()):
            done = accounts.declare_projects(members, day)
            self.stdout.write(
                f"{cluster}: {len(done.projects)} projects declared, {len(done.accounts)} accounts mapped "
                f"from {day} on, {len(done.left)} left alone"
            )
            for account, why in done.left:
                self.stdout.write(f"  left alone: {account} {why}")


def _whole(text: TextFile) -> str:
    """The whole file. Raises Unreadable."""
    parts: list[str] = []
    size = 0
    for part in text.blocks():
        size += len(part)
        if size > MOST_CHARACTERS:
            raise Unreadable(f"{text.name}: more than {MOST_CHARACTERS:,} characters, so it is no list of associations")
        parts.append(part)
    return "".join(parts)

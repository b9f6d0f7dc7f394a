"""`migrate` as the owner's role: the application's role may not change tables."""

from __future__ import annotations

from django.core.management.base import CommandParser
from django.core.management.commands import migrate


class Command(migrate.Command):
    """Django's migrate with the owner's connection by default."""

    def add_arguments(self, parser: CommandParser) -> None:
        """The same arguments; only the default of --database differs."""
        super().add_arguments(parser)
        parser.set_defaults(database="owner")

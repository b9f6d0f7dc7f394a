"""`manage.py rebuild [NAME]`: make read models again from the log, beside the live ones, and swap them in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import projector
from events.rebuild import rebuild


class Command(BaseCommand):
    """Rebuild one group or all."""

    help = "Make the read models again from the log, beside the live ones, and swap them in."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("name", nargs="?", help="one group; all when left out")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit 2 for an unknown name."""
        groups = projector.groups()
        if options["name"]:
            groups = [group for group in groups if group.name == options["name"]]
            if not groups:
                known = ", ".join(group.name for group in projector.groups())
                raise CommandError(f"there is no group {options['name']!r}; there are {known}", returncode=2)
        for name, position in rebuild(groups).items():
            self.stdout.write(f"{name}: rebuilt to position {position}")

"""`manage.py project`: catch up now, return when done."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import deliveries, projector, queries


class Command(BaseCommand):
    """Take in pending deliveries and apply everything the log holds to the read models."""

    help = "Take in pending deliveries and apply what the log holds to the read models; returns when done."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--retry-parked", action="store_true", help="apply parked events again, after a fix")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit 1 when a group stands still."""
        while deliveries.drain():
            pass
        projector.catch_up()
        if options["retry_parked"]:
            for group in projector.groups():
                applied, left = projector.retry_parked(group)
                self.stdout.write(f"{group.name}: {applied} parked streams applied, {left} still parked")
        stopped = [row for row in queries.groups() if row.state != "live"]
        self.stdout.write(f"at position {queries.as_of().position} of {queries.head_position()}")
        if stopped:
            raise CommandError("; ".join(f"{row.group} stands still: {row.error}" for row in stopped), returncode=1)

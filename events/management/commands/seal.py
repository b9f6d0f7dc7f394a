"""`manage.py seal NOTE`: write down the head hash that is handed out, to whom."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from events.seal import seal


class Command(BaseCommand):
    """Print the head of the log and keep that it was handed out."""

    help = "Print position and hash of the log's head and note to whom it goes; verify then holds the log to it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("note", help="to whom, such as 'auditor, November'")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Seal."""
        sealed = seal(options["note"], now=datetime.now(UTC))
        self.stdout.write(f"position {sealed.position} hash {sealed.hash.hex() or '(empty log)'}")

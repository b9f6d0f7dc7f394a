"""`manage.py verify`: the log is as written, rebuilt equals live, the books balance."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from tqdm import tqdm

from events import projector, queries
from events.rebuild import Difference, compare
from events.seal import Damage, Sealed, verify_chain


class Command(BaseCommand):
    """Prove the log and everything derived from it; exit 1 and the first difference if not so."""

    help = "Prove that the log is as written, that rebuilt read models equal the live ones, and that books balance."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--since", type=int, default=0, metavar="P", help="check the chain only after position P")
        parser.add_argument("--chain-only", action="store_true", help="leave out rebuilding and comparing")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the three proofs in order."""
        try:
            sealed = self._chain(options["since"])
            self.stdout.write(f"log: {sealed.events} events to position {sealed.position} as written")
            self.stdout.write(f"head hash {sealed.hash.hex() or '(empty log)'}")
            if not options["chain_only"]:
                projector.catch_up()
                for group in projector.groups():
                    compare([group])
                    self.stdout.write(f"{group.name}: rebuilt equals live")
            self._balance()
        except (Damage, Difference) as error:
            raise CommandError(str(error), returncode=1) from None
        self.stdout.write("books balance")

    def _chain(self, since: int) -> Sealed:
        shown = sys.stderr.isatty()
        with tqdm(total=queries.head_position() - since, unit=" events", disable=not shown, leave=False) as bar:
            return verify_chain(since, tick=bar.update)

    def _balance(self) -> None:
        stopped = [f"{row.group} stands still: {row.error}" for row in queries.groups() if row.state == "stopped"]
        with connection.cursor() as cursor:
            wrong = [f"{group.name}: {text}" for group in projector.groups() for text in group.check(cursor)]
        if stopped or wrong:
            raise Difference((stopped + wrong)[0])

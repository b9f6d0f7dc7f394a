"""`manage.py token NAME --scope events:write`: make, list and revoke tokens."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from api import tokens
from api.models import Token
from api.scopes import SCOPES


class Command(BaseCommand):
    """Prints the new token once on standard output; nothing keeps it."""

    help = "Make a token for a machine. Scopes: " + "; ".join(f"{name}: {what}" for name, what in SCOPES.items())

    def add_arguments(self, parser: CommandParser) -> None:
        """A name with scopes, or --list, or --revoke."""
        parser.add_argument("name", nargs="?", help="the token's name, unique for ever")
        parser.add_argument("--scope", action="append", default=[], help="what it may do; may be repeated")
        parser.add_argument("--project", action="append", default=[], help="limit what it may read to a project")
        parser.add_argument("--expires", type=int, metavar="DAYS", help="days until it expires")
        parser.add_argument("--list", action="store_true", help="list all tokens")
        parser.add_argument("--revoke", metavar="NAME", help="revoke a token")

    def handle(self, *_: Any, **options: Any) -> None:
        """Exit code 2 when called wrongly."""
        if options["list"]:
            self._list()
        elif options["revoke"]:
            self._revoke(options["revoke"])
        elif options["name"]:
            self._create(options)
        else:
            raise CommandError("give a NAME with --scope, or --list, or --revoke NAME", returncode=2)

    def _create(self, options: dict[str, Any]) -> None:
        try:
            _, secret = tokens.create(options["name"], options["scope"], options["project"], options["expires"])
        except tokens.BadToken as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(secret)

    def _revoke(self, name: str) -> None:
        if not tokens.revoke(name):
            raise CommandError(f"there is no token named {name!r}", returncode=2)
        self.stdout.write(f"{name} revoked; every process follows within {tokens.CACHE_SECONDS} s")

    def _list(self) -> None:
        for token in Token.objects.all():
            fields = [token.name, " ".join(token.scopes), ",".join(token.projects or ["*"])]
            dates = {"created": token.created_at, "used": token.last_used_at}
            dates |= {"expires": token.expires_at, "revoked": token.revoked_at}
            fields += [f"{what} {at:%Y-%m-%dT%H:%MZ}" for what, at in dates.items() if at]
            self.stdout.write("\t".join(fields))

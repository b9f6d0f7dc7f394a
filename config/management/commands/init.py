"""`manage.py init --site NAME --timezone TZ --currency EUR`: the first real use; may be repeated."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from events import projector
from events.actions import declare_site
from events.reports import BadParameter, named_zone
from events.tasks import upkeep
from events.types import REGISTRY
from events.types.clusters import SiteDeclared


class Command(BaseCommand):
    """Make the tables and declare the site."""

    help = "Make the tables and declare the site whose books are kept. Repeating it changes what is given."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--site", required=True, help="name of the site")
        parser.add_argument("--timezone", required=True, metavar="TZ", help="its zone in the tz database")
        parser.add_argument("--currency", required=True, metavar="EUR", help="its currency, ISO 4217")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit 2 for a zone or currency that is none."""
        site = _site(options["site"], options["timezone"], options["currency"])
        prepare()
        said = declare_site(site, actor="init")
        projector.catch_up()
        self.stdout.write(
            f"{site.name}, {site.timezone}, {site.currency}: {'declared' if said else 'declared already'}"
        )


def _site(name: str, timezone: str, currency: str) -> SiteDeclared:
    try:
        named_zone(timezone)
        found = SiteDeclared(name=name, timezone=timezone, currency=currency)
        REGISTRY.get("site.declared").check(found)
    except BadParameter as error:
        raise CommandError(f"--timezone: {error.text}", returncode=2) from None
    except ValueError as error:
        raise CommandError(str(error), returncode=2) from None
    return found


def prepare() -> None:
    """Apply migrations that are missing (as the owner) and make the partitions of the days ahead."""
    executor = MigrationExecutor(connections["default"])
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)
        upkeep()

"""`manage.py bench NAME...`: how fast it is, against a yardstick measured in the same run."""

from __future__ import annotations

import importlib
import json
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

NAMES: Final = ("ingest", "single", "project", "import", "live", "report", "telemetry")
"""The benchmarks, in the order of --all; each is `run(quick=...)` of the module bench.NAME."""
MODULES: Final = {"import": "imports"}


class Command(BaseCommand):
    """Run benchmarks in databases of their own, which are dropped afterwards."""

    help = "Run benchmarks; each in a database of its own on the running server, never the site's."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
        parser.add_argument("--all", action="store_true", help="all of them")
        parser.add_argument("--json", action="store_true", help="one JSON line each")
        parser.add_argument("--quick", action="store_true", help="small sizes, once: that they run, not how fast")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit 2 for a name that is none."""
        names = list(NAMES) if options["all"] else options["names"]
        known = ", ".join(NAMES)
        if not names:
            raise CommandError(f"name a benchmark ({known}) or give --all", returncode=2)
        if unknown := [name for name in names if name not in NAMES]:
            raise CommandError(f"no benchmark {', '.join(unknown)}; there are {known}", returncode=2)
        for name in names:
            line = importlib.import_module(f"bench.{MODULES.get(name, name)}").run(quick=options["quick"]).line()
            self.stdout.write(json.dumps(line) if options["json"] else _table(line))
            self.stdout.flush()


def _table(line: dict[str, Any]) -> str:
    width = max(map(len, line["figures"]), default=0)
    rows = [f"{line['name']}: ratio {line['ratio']} (runs {', '.join(str(run) for run in line['runs'])})"]
    return "\n".join(rows + [f"  {key:<{width}}  {_told(value)}" for key, value in line["figures"].items()])


def _told(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)

"""`manage.py fairshare set|show|export|what-if CLUSTER`: how it is computed, who stands where, and shares for Slurm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import projector
from events.access import Scope
from events.reports import BadParameter, instant
from events.types.shares import FairshareConfigured
from fleet.queries import site
from jobs import queries_fairshare as queries
from jobs import queries_whatif, shares
from jobs.shares import BadSetting
from jobs.standing import NoFairshare

EVER = "1970-01-01"


class Command(BaseCommand):
    """Configure, show and export fair share."""

    help = "Fair share of a cluster: set how it is computed, show who stands where, export shares, ask what if."

    def add_arguments(self, parser: CommandParser) -> None:
        """One subcommand each."""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        one = verbs.add_parser("set", help="say how it is computed, from a day on")
        one.add_argument("cluster", metavar="CLUSTER")
        one.add_argument("--half-life", required=True, metavar="T", help="7d, 7-0, 604800; 0 is no decay (slurm)")
        one.add_argument("--from", dest="day", default=EVER, metavar="DAY", help="since ever by default")
        one.add_argument("--mode", default="slurm", choices=["slurm", "continuous"])
        one.add_argument("--algorithm", default="fair_tree", choices=["fair_tree", "classic"])
        one.add_argument("--ties", default="coded", choices=["coded", "documented"])
        one.add_argument("--period", default="300", metavar="T", help="PriorityCalcPeriod; 300 s by default")
        one.add_argument("--phase", default="0", metavar="T", help="second of the period at which a slice ends")
        one.add_argument("--dampening", type=int, default=1, metavar="N", help="FairShareDampeningFactor (classic)")
        one.add_argument("--reset", default="none", help="PriorityUsageResetPeriod: none, daily, weekly, monthly, ...")
        one.add_argument("--weights", action="append", default=[], metavar="PARTITION=CPU=0.125,GRES/gpu=10",
                         help="TRESBillingWeights of a partition (* for the others); repeat it")  # fmt: skip
        for verb, text in (("show", "who stands where"), ("export", "shares as sacctmgr commands"),
                           ("what-if", "what more use would change")):  # fmt: skip
            other = verbs.add_parser(verb, help=text)
            other.add_argument("cluster", metavar="CLUSTER")
            other.add_argument("--at", default="", metavar="D", help="date or RFC 3339 time; now by default")
            if verb == "what-if":
                other.add_argument(
                    "what", metavar="nodes:10,hours:24,account:A", help="also user:, gpus:, cpus:, partition:"
                )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Exit 2 when called wrongly or nothing is configured."""
        try:
            getattr(self, "_" + options["verb"].replace("-", "_"))(options)
        except (BadSetting, BadParameter) as bad:
            name = f"--{bad.name.replace('_', '-')}: " if bad.name else ""
            raise CommandError(name + bad.text, returncode=2) from None
        except NoFairshare as missing:
            raise CommandError(str(missing), returncode=2) from None

    def _set(self, options: dict[str, Any]) -> None:
        try:
            config = FairshareConfigured(
                cluster=options["cluster"], from_day=options["day"], mode=options["mode"],
                half_life_seconds=shares.seconds_of("half_life", options["half_life"]),
                algorithm=options["algorithm"], ties=options["ties"],
                calc_period_seconds=shares.seconds_of("period", options["period"]),
                phase_seconds=shares.seconds_of("phase", options["phase"]), dampening=options["dampening"],
                reset=options["reset"], weights=shares.weights_from(options["weights"]),
            )  # fmt: skip
        except BadSetting:
            raise
        except ValueError as error:
            raise BadSetting("", str(error)) from None
        position = shares.configure(config, actor="fairshare")
        projector.catch_up()
        self.stdout.write(f"{config.cluster}: fair share from {config.from_day} on, position {position}")

    def _show(self, options: dict[str, Any]) -> None:
        found = queries.seen(Scope.everything(), options["cluster"], _at(options["at"]))
        heads = ["account", "user", "shares", "norm_shares", "usage", "norm_usage", "effective_usage", "factor",
                 "level_fs", "rank", "decayed_seconds", "undecayed_seconds"]  # fmt: skip
        self._print(heads, [[row[head] for head in heads] for row in found.rows])
        for gap in found.gaps:
            self.stdout.write("missing: " + ", ".join(f"{key} {value}" for key, value in gap.items()))
        self.stdout.write(f"at {found.at.isoformat()}, {found.rule}")

    def _export(self, options: dict[str, Any]) -> None:
        for line in queries.export(Scope.everything(), options["cluster"], _at(options["at"])):
            self.stdout.write(line)

    def _what_if(self, options: dict[str, Any]) -> None:
        found = queries_whatif.what_if(Scope.everything(), options["cluster"], _at(options["at"]), options["what"])
        self.stdout.write(found.told)
        heads = ["account", "user", *(f"{name}_{when}" for name in ("level_fs", "factor", "rank")
                                      for when in ("now", "then", "with_it"))]  # fmt: skip
        self._print(heads, [[row[head] for head in heads] for row in found.rows])

    def _print(self, heads: list[str], rows: list[list[Any]]) -> None:
        cells = [heads, *([_text(value) for value in row] for row in rows)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
        for row in cells:
            self.stdout.write("  ".join(
                cell.ljust(width) if n < 2 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip())  # fmt: skip


def _at(text: str) -> datetime:
    return instant("at", text, site().zone) if text else datetime.now(UTC)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6f}" if isinstance(value, float) else str(value)

"""`manage.py report NAME --from D --to D`: the same figures as REST, on the command line."""

from __future__ import annotations

import textwrap
from argparse import RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter

from api import reportforms
from events import reports
from events.access import Scope
from fleet.queries import site

WIDTH = 100


class _AsWritten(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the lines of the list of reports."""


def _there_are() -> str:
    """Every report with what it answers and what it can be grouped by."""
    return "reports:\n" + "\n".join(_entry(reports.definition(name)) for name in reports.names())


def _entry(found: reports.Definition) -> str:
    told = [found.about or found.title, f"group by: {', '.join(found.groupings)}; usual: {','.join(found.default)}"]
    if len(found.views) > 1:
        told.append(f"views: {', '.join(found.views)}")
    lines = [line for text in told for line in textwrap.wrap(text, WIDTH - 6, subsequent_indent="  ")]
    return "\n".join([f"  {found.name}", *(f"      {line}" for line in lines)])


class Command(BaseCommand):
    """Print one report."""

    help = "Print a report: the same names, parameters and figures as GET /api/v1/reports/NAME."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """The parser, whose help ends with the reports there are."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=_AsWritten, epilog=_there_are(), **kwargs
        )  # fmt: skip

    def add_arguments(self, parser: CommandParser) -> None:
        """Options, as in REST."""
        parser.add_argument("name", metavar="NAME", help=f"which report: {', '.join(reports.names())}")
        parser.add_argument("--from", dest="start", required=True, metavar="D", help="date or RFC 3339 time")
        parser.add_argument("--to", dest="end", required=True, metavar="D", help="the same; not included")
        parser.add_argument("--timezone", default="", metavar="Z", help="zone of days and dates; the site's by default")
        parser.add_argument("--group-by", default="", metavar="A,B", help="such as project,month")
        parser.add_argument("--project", default="", metavar="P", help="only this project and what is below it")
        parser.add_argument(
            "--as-known-at", default="", metavar="P", help="as the log knew it at a position, or at a time"
        )
        parser.add_argument("--view", default="", help="one of the report's views")
        parser.add_argument("--format", default="table", choices=sorted(reportforms.FORMS))
        parser.add_argument("-o", "--output", default="", metavar="FILE", help="write there instead of standard output")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compute and print; exit 2 when a parameter cannot be used."""
        try:
            params = reports.parse(
                options["name"],
                zone=site().zone,
                start=options["start"],
                end=options["end"],
                timezone=options["timezone"],
                group_by=options["group_by"],
                project=options["project"],
                as_known_at=options["as_known_at"],
                view=options["view"],
            )
            report = reports.run(options["name"], Scope.everything(), params)
        except reports.BadParameter as error:
            name = "" if error.name == "name" else f"--{error.name.replace('_', '-')}: "
            raise CommandError(name + error.text, returncode=2) from None
        if options["format"] == "xlsx" and not options["output"] and self.stdout.isatty():
            raise CommandError("a workbook is not for a terminal: name a file with -o", returncode=2)
        self._write(reportforms.FORMS[options["format"]](report), options["output"])
        if options["format"] in ("csv", "xlsx"):  # the table and JSON say it themselves
            for gap in report.gaps:
                self.stderr.write("missing: " + ", ".join(f"{key} {value}" for key, value in gap.items()))

    def _write(self, body: bytes, output: str) -> None:
        if output:
            try:
                Path(output).write_bytes(body)
            except OSError as error:
                raise CommandError(f"-o {output}: cannot be written ({error.strerror})", returncode=2) from None
            self.stderr.write(f"written to {output}")
            return
        stream = getattr(self.stdout._out, "buffer", None)
        if stream is None:  # a test's text stream
            self.stdout.write(body.decode("utf-8", "replace"))
        else:
            stream.write(body)
            stream.flush()

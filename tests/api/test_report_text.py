"""Reports as text of a terminal: the help lists what there is, columns line up, names steer nothing."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command

from api.reportforms import FORMS
from events import reports
from events.reports import AsOf, Column, Params, Report

COLUMNS = (
    Column("user", "User", "label"),
    Column("not_instrumented_gpu_seconds", "Not instrumented", "seconds", "GPU-s"),
    Column("amount", "Cost", "money"),
)


def text_of(*rows: tuple[str, int | None, str | None]) -> list[str]:
    params = Params(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), ZoneInfo("UTC"), ("user",))
    named = [{"user": user, "not_instrumented_gpu_seconds": seconds, "amount": {"amount": cost, "currency": "EUR"}}
             for user, seconds, cost in rows]  # fmt: skip
    total = {"not_instrumented_gpu_seconds": 1234567, "amount": {"amount": "3.00", "currency": "EUR"}}
    found = Report("usage", params, COLUMNS, named, total, AsOf(7, datetime(2026, 11, 30, tzinfo=UTC)))
    return FORMS["table"](found).decode().splitlines()


def test_long_names_of_columns_are_folded_over_their_figures() -> None:
    assert [line.replace("\u202f", " ") for line in text_of(("ada", 1234567, "3.00"), ("ben", None, None))] == [
        "usage by user: 2026-10-01 00:00 to 2026-11-01 00:00 UTC",
        "                not_",
        "       instrumented_",
        "user     gpu_seconds    amount",
        "-----  -------------  --------",
        "ada        1 234 567  3.00 EUR",
        "ben          no data  no price",
        "=====  =============  ========",
        "total      1 234 567  3.00 EUR",
        "as of position 7, 2026-11-30T00:00:00Z",
    ]


def test_wide_letters_take_two_columns_and_control_characters_none() -> None:
    lines = text_of(("\u5b66\u751f", 1, "1.00"), ("a\x1b[31mb", 2, "2.00"))
    assert lines[5] == "\u5b66\u751f" + " " * 17 + "1  1.00 EUR"  # 4 of 7 columns, 2 between, 13 for the figure
    assert lines[6] == "a?[31mb" + " " * 14 + "2  2.00 EUR"
    assert "\x1b" not in "".join(lines)


def test_the_help_names_every_report_and_its_groupings() -> None:
    from api.management.commands.report import Command

    told = " ".join(Command().create_parser("manage.py", "report").format_help().split())
    for name in reports.names():
        found = reports.definition(name)
        assert f" {name} {found.about}" in told
        assert f"group by: {', '.join(found.groupings)}; usual: {','.join(found.default)}" in told


@pytest.mark.django_db
def test_the_command_prints_it() -> None:
    said = io.StringIO()
    call_command("report", "usage", "--from=2026-10-01", "--to=2026-11-01", stdout=said)
    assert said.getvalue().startswith("usage by project: 2026-10-01 00:00 to 2026-11-01 00:00 ")

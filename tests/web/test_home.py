"""Home: what is now, by role; what wants attention; what to do with empty books."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from events.adapters import Draft, Refusal
from events.intake import Intake
from events.types.jobs import JobReported
from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words

BERLIN = ZoneInfo("Europe/Berlin")

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def ago(**span: float) -> int:
    return int((datetime.now(UTC) - timedelta(**span)).timestamp())


def now_(account: str, number: int, state: str, **more: Any) -> Draft:
    """A job that runs or waits."""
    given: dict[str, Any] = {
        "cluster": "pod-a", "job_id": str(number), "state": state, "account": account, "user": "ada",
        "partition": "train", "nodes": 1, "cpus": 64, "gpus": 8, "gpu_types": ("h100=8",),
    } | more  # fmt: skip
    return Draft("job.reported", JobReported(**given), f"{number}-{state}", ago(minutes=1) * 1_000_000, number)


def fill() -> None:
    declare("atlas", "vision")
    start = ago(hours=2)
    book(
        now_("atlas", 901, "RUNNING", submit=start - 60, eligible=start - 60, start=start),
        now_("vision", 902, "RUNNING", submit=start - 60, eligible=start - 60, start=start, gpus=4, gpu_types=()),
        now_("atlas", 903, "PENDING", submit=ago(hours=5), eligible=ago(hours=3), reason="Priority"),
        now_("atlas", 904, "PENDING", submit=ago(hours=1), eligible=ago(hours=1), reason="Priority"),
        now_("vision", 905, "PENDING", submit=ago(minutes=30), eligible=ago(minutes=30), reason="Resources"),
    )


def test_what_runs_and_waits_now(admin: Client) -> None:
    fill()
    html = html_of(admin, "/")
    read = main_of(html)
    assert "GPUs held now 12 on 2 nodes" in read
    assert "Runs active 2 2 attempts" in read
    assert "Jobs waiting 3 longest 3 h 00 min" in read
    assert "Wait, median, 7 days 1 min p95 1 min; 2 starts" in read
    assert '<span class="count" title="runs that hold something now">2</span>' in html, "as Runs active"
    active = table(html, "Active runs")
    assert [row[:5] for row in active] == [
        ["pod-a/901", "atlas", "ada", "8", "1"], ["pod-a/902", "vision", "ada", "4", "1"],
    ]  # fmt: skip
    assert active[0][5] == "2 h 00 min"
    assert table(html, "Who waits") == [
        ["atlas", "2", "3 h 00 min", "Priority"], ["vision", "1", "30 min", "Resources"],
    ]  # fmt: skip


def test_a_lead_sees_the_own_projects_only() -> None:
    fill()
    html = html_of(signed_in(person("lea", projects=("vision",))), "/")
    read = main_of(html)
    assert "GPUs held now 4 on 1 node" in read
    assert "Jobs waiting 1 longest 30 min" in read
    assert "atlas" not in html
    assert "Rejections" not in html


def test_seven_days_against_the_seven_before(admin: Client) -> None:
    """50 GPU-h on each of the last 7 full days, 40 on each of the 7 before: a quarter more."""
    declare("atlas")
    today = datetime.now(BERLIN).date()
    book(*[
        job("atlas", f"{today - timedelta(days=back)} 06:00", 5 if back <= 7 else 4, 10)
        for back in range(1, 15)
    ])  # fmt: skip
    html = html_of(admin, "/")
    assert "GPU-hours, 7 full days 350.0 25.0 % on the 7 days before" in main_of(html)
    assert table(html, "By project") == [["atlas", "", "630.0", "100.00", "350.0", "+25.0 %"]]


def test_loose_ends_say_what_to_do(admin: Client) -> None:
    declare("atlas")
    book(job("stray", "2026-10-02 08:00", 1, 8))
    Intake("test", "test").reject([Refusal(0, "/data/gpus", "invalid", "is no number", "{}", "test")])
    read = main_of(html_of(admin, "/")).split("Loose ends", 1)[1]
    assert "1 account without project: stray" in read
    assert "manage.py import_accounts FILE" in read
    assert "1 record refused and open" in read


def test_no_loose_end_is_said_too(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    assert "None. Sources speak" in main_of(html_of(admin, "/"))


def test_figures_that_lag_the_log_are_told(admin: Client, monkeypatch: Any) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    monkeypatch.setattr("events.queries.recorded_after", lambda _: datetime.now(UTC) - timedelta(minutes=5, seconds=30))
    html = html_of(admin, "/")
    assert "Figures are 5 min behind the log" in main_of(html)
    assert "lag 5 min" in words(html)


def test_empty_books_say_how_to_begin(admin: Client) -> None:
    read = main_of(html_of(admin, "/"))
    for command in ("manage.py init --site NAME", "import_sacct FILE --cluster NAME"):
        assert command in read


def test_nobody_without_grant_sees_anything() -> None:
    fill()
    read = main_of(html_of(signed_in(person("new")), "/"))
    assert "None was granted yet" in read
    assert "atlas" not in read


def test_a_chosen_theme_stays_until_it_is_given_back(admin: Client) -> None:
    assert "data-theme" not in html_of(admin, "/")
    chosen = admin.post("/theme/", {"theme": "dark", "back": "/projects/?group=user"})
    assert (chosen.status_code, chosen["Location"]) == (302, "/projects/?group=user")
    assert '<html lang="en" data-theme="dark">' in html_of(admin, "/")
    assert admin.post("/theme/", {"theme": "", "back": "https://elsewhere.example/"})["Location"] == "/"
    assert "data-theme" not in html_of(admin, "/")
    admin.cookies["theme"] = '"><script>'
    assert "<script>" not in html_of(admin, "/").split("</head>")[0]

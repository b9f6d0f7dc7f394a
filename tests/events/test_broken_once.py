"""What once broke: each a report of somebody who tried to break it."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from api import tokens
from events import projector, reports
from events import queries as log
from events.access import Scope
from events.adapters import Draft
from events.derive.attempts import Sighting, fold
from events.intake import Intake
from events.reports import BadParameter, Params, bucket_edges, parse
from events.types import REGISTRY
from events.types.jobs import JobReported
from jobs import windows
from jobs.checks import check
from jobs.models import Run

UTC_ZONE = ZoneInfo("UTC")
NOON = 1_790_000_000


def sighting(position: int, state: str, submit: int, start: int, end: int | None, **more: int) -> Sighting:
    data = JobReported(
        cluster="c", job_id="1", state=state, submit=submit, start=start, end=end, gpus=8, account="a", **more
    )  # type: ignore[arg-type]
    return Sighting(position, "sacct:c", f"k#{position}", "job.reported", (end or start) * 10**6, data)


def spans(*told: Sighting) -> list[tuple[int, int | None]]:
    return [(attempt.start, attempt.end) for job in fold(told) for attempt in job.attempts]


def test_hours_go_on_where_clocks_move_by_half_an_hour() -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    start, end = datetime(2026, 4, 4, tzinfo=zone).astimezone(UTC), datetime(2026, 4, 6, tzinfo=zone).astimezone(UTC)
    edges = bucket_edges(Params(start, end, zone, ("hour",)))
    assert sum((until - since for _, since, until in edges), timedelta()) == timedelta(hours=48, minutes=30)
    assert all(since < until for _, since, until in edges)


def test_pieces_go_forward_where_clocks_go_back_over_midnight() -> None:
    zone = ZoneInfo("Antarctica/Casey")
    start = datetime(2010, 3, 1, tzinfo=UTC)
    found = windows.window(Params(start, start + timedelta(days=10), UTC_ZONE, ("hour",)), zone)
    assert list(found.edges) == sorted(set(found.edges))


@pytest.mark.parametrize(
    ("state", "taken"), [("COMPLETING", False), ("COMPLETED", False), ("RUNNING", True), ("PENDING", True)]
)
@pytest.mark.django_db
def test_an_end_in_the_future_is_only_a_plan_of_what_runs_or_waits(state: str, taken: bool) -> None:
    data = JobReported(cluster="c", job_id="1", state=state, submit=NOON, start=NOON, end=NOON + 90_000)  # type: ignore[arg-type]
    intake = Intake(source="s", actor="t", clock=lambda: NOON * 10**6)
    assert (intake.take([Draft("job.reported", data, "k", NOON * 10**6, 0)])[0].status == "accepted") is taken


@pytest.mark.django_db
def test_a_gpu_type_called_cpu_is_no_cpu() -> None:
    data = JobReported(
        cluster="c", job_id="1", state="COMPLETED", submit=NOON, start=NOON, end=NOON + 100, gpus=2,
        gpu_types=("cpu=2",), account="a",
    )  # fmt: skip
    Intake(source="s", actor="t").take([Draft("job.reported", data, "k", NOON * 10**6, 0)])
    projector.catch_up()
    from django.db import connection

    with connection.cursor() as cursor:
        assert check(cursor) == []
        cursor.execute("SELECT resource_class, unit_seconds FROM jobs_classday")
        assert cursor.fetchall() == [("gpu", 200)]


@pytest.mark.django_db
def test_sums_beyond_64_bits_are_told() -> None:
    most = 2**31 - 1
    drafts = [
        Draft(
            "job.reported",
            JobReported(
                cluster="c", job_id=str(n), state="COMPLETED", start=0, end=NOON, gpus=most, cpus=most, nodes=most
            ),
            str(n), NOON * 10**6, n,
        )
        for n in range(3)
    ]  # fmt: skip
    Intake(source="s", actor="t").take(drafts)
    projector.catch_up()
    params = Params(datetime(1970, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), UTC_ZONE)
    assert reports.run("usage", Scope.everything(), params).total["gpu_seconds"] == 3 * NOON * most


@pytest.mark.django_db
def test_a_run_beyond_64_bits_does_not_stop_the_books() -> None:
    """Three jobs of one run, each of 2^31 - 1 GPUs for 56 years: more than 2^63 GPU-seconds together."""
    most = 2**31 - 1
    drafts = [
        Draft(
            "job.reported",
            JobReported(
                cluster="c", job_id=str(n), state="COMPLETED", start=0, end=NOON, gpus=most, account="a", run="huge"
            ),
            str(n), NOON * 10**6, n,
        )
        for n in range(3)
    ]  # fmt: skip
    Intake(source="s", actor="t").take(drafts)
    projector.catch_up()
    assert 3 * NOON * most > 2**63
    assert Run.objects.get(named=True).gpu_seconds == 2**63 - 1
    assert log.as_of().position == log.head_position()


@pytest.mark.parametrize("zone", ["posix/Europe/Berlin", "right/Europe/Berlin", "localtime", "Mars/Olympus"])
def test_a_zone_that_only_some_programs_know_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="is not in the tz database"):
        REGISTRY.get("site.declared").decoder.decode(json.dumps({"name": "x", "timezone": zone, "currency": "EUR"}))


def test_a_start_that_moved_is_one_attempt() -> None:
    """RUNNING from 01:05, then COMPLETED 01:00 to 02:00; and the other way round."""
    assert spans(sighting(1, "RUNNING", 0, 3900, None), sighting(2, "COMPLETED", 0, 3600, 7200)) == [(3600, 7200)]
    assert spans(sighting(1, "RUNNING", 0, 3600, None), sighting(2, "COMPLETED", 0, 3900, 7200)) == [(3900, 7200)]


def test_a_record_number_that_comes_again_days_later_is_another_record() -> None:
    days = 4 * 86_400
    first = sighting(1, "COMPLETED", 0, 100, 3700, record=1)
    again = sighting(2, "COMPLETED", days, days + 100, days + 3700, record=1)
    assert spans(first, again) == spans(again, first) == [(100, 3700), (days + 100, days + 3700)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"start": "0002-01-01"}, "only times from"),
        ({"end": "9999-12-31"}, "only times from"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "neither a date"),
        ({"start": "2026-01-01T00:00:00.5Z"}, "whole seconds"),
        ({"start": "1990-01-01", "group_by": "hour"}, "by hour at most 800 days"),
        ({"as_known_at": "²"}, "neither a date"),
        ({"as_known_at": "9" * 5000}, "neither a date"),
    ],
)
@pytest.mark.django_db
def test_windows_have_bounds(changes: dict[str, str], text: str) -> None:
    asked = {"start": "2026-01-01", "end": "2026-02-01", **changes}
    with pytest.raises(BadParameter, match=text):
        parse("usage", zone=UTC_ZONE, **asked)


@pytest.mark.parametrize(
    "bad",
    [
        '{"specversion":"1.0","x":' + "[" * 300_000 + "]" * 300_000 + "}",
        (
            '{"specversion":"1.0","id":"t","source":"s","type":"cluster.declared",'
            '"time":"9999-12-31T23:59:59.999999-14:00","data":{"cluster":"x"}}'
        ),
    ],
    ids=["nested", "beyond the calendar"],
)
@pytest.mark.django_db
def test_one_bad_item_does_not_take_its_neighbours_along(bad: str) -> None:
    _, secret = tokens.create("w", ["events:write"])
    good = {
        "specversion": "1.0", "id": "g", "source": "s", "type": "cluster.declared", "time": "2026-01-01T00:00:00Z",
        "data": {"cluster": "pod-a"},
    }  # fmt: skip
    answer = Client().post(
        "/api/v1/events", f"{bad}\n{json.dumps(good)}\n", content_type="application/x-ndjson",
        headers={"Authorization": f"Bearer {secret}"},
    )  # fmt: skip
    assert answer.status_code == 200
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (1, 1)


@pytest.mark.django_db
def test_many_members_of_gzip_are_refused() -> None:
    _, secret = tokens.create("w", ["events:write"])
    answer = Client().post(
        "/api/v1/events", gzip.compress(b"") * 1000, content_type="application/x-ndjson",
        headers={"Authorization": f"Bearer {secret}", "Content-Encoding": "gzip"},
    )  # fmt: skip
    assert answer.status_code == 400
    assert "over 100 members" in answer.json()["detail"]


@pytest.mark.django_db
def test_rows_and_total_of_what_runs_have_one_instant() -> None:
    """A job of 8 GPUs has run since noon: rows, total and `as_of` must not each have a now of their own."""
    data = JobReported(cluster="c", job_id="1", state="RUNNING", start=NOON, gpus=8, account="a", user="u")
    Intake(source="s", actor="t").take([Draft("job.reported", data, "k", NOON * 10**6, 0)])
    projector.catch_up()
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    for by in ((), ("quarter",), ("account", "user"), ("year", "cluster")):
        found = reports.run("usage", Scope.everything(), Params(start, end, UTC_ZONE, by))
        ran = int((found.as_of.time - datetime.fromtimestamp(NOON, UTC)).total_seconds())
        assert found.total["gpu_seconds"] == 8 * ran
        assert sum(row["gpu_seconds"] for row in found.rows) == 8 * ran

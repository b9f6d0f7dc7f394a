"""What a report may be asked: instants, zones, calendar buckets, the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from events.actions import declare_cluster
from events.queries import head_position
from events.reports import BadParameter, Params, bucket_edges, parse

BERLIN = ZoneInfo("Europe/Berlin")


def edges(start: datetime, end: datetime, bucket: str) -> list[tuple[str, float]]:
    """Labels and lengths in hours."""
    found = bucket_edges(Params(start.astimezone(UTC), end.astimezone(UTC), BERLIN, (bucket,)))
    return [(label, (until - since) / timedelta(hours=1)) for label, since, until in found]


def test_the_day_the_clocks_go_back_has_25_hours() -> None:
    found = edges(datetime(2026, 10, 24, tzinfo=BERLIN), datetime(2026, 10, 27, tzinfo=BERLIN), "day")
    assert found == [("2026-10-24", 24), ("2026-10-25", 25), ("2026-10-26", 24)]


def test_its_hours_are_told_apart_by_their_offset() -> None:
    found = edges(datetime(2026, 10, 25, tzinfo=BERLIN), datetime(2026, 10, 26, tzinfo=BERLIN), "hour")
    assert len(found) == 25
    assert [label for label, _ in found[2:4]] == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("month", [("2025-12", 744), ("2026-01", 744), ("2026-02", 672), ("2026-03", 743)]),
        ("quarter", [("2025-Q4", 744), ("2026-Q1", 744 + 672 + 743)]),
        ("year", [("2025", 744), ("2026", 744 + 672 + 743)]),
    ],
)
def test_months_quarters_and_years(bucket: str, expected: list[tuple[str, float]]) -> None:
    assert edges(datetime(2025, 12, 1, tzinfo=BERLIN), datetime(2026, 4, 1, tzinfo=BERLIN), bucket) == expected


def test_weeks_are_those_of_iso_8601() -> None:
    found = edges(datetime(2026, 12, 30, tzinfo=BERLIN), datetime(2027, 1, 6, tzinfo=BERLIN), "week")
    assert found == [("2026-W53", 5 * 24), ("2027-W01", 2 * 24)]


@pytest.mark.django_db
def test_the_past_is_asked_by_position_or_time() -> None:
    declare_cluster("pod-a", actor="test")
    between = datetime.now(UTC)
    declare_cluster("pod-b", actor="test")

    def known(text: str) -> int | None:
        return parse("usage", zone=BERLIN, start="2026-01-01", end="2026-02-01", as_known_at=text).as_known_at

    assert known("") is None
    assert known("1") == 1
    assert known(between.isoformat()) == 1
    assert known("2020-01-01") == 0
    assert head_position() == 2
    with pytest.raises(BadParameter, match="position 3 is not in the log yet; its last one is 2"):
        known("3")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"start": "yesterday"}, "from: 'yesterday' is neither a date"),
        ({"end": "2026-02-01T00:00:00"}, "to: '2026-02-01T00:00:00' is neither a date .* nor a time with zone"),
        ({"end": "2026-01-01"}, "to: 2026-01-01 is not after 2026-01-01; the end is exclusive"),
        ({"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not in the tz database"),
        ({"group_by": "colour"}, "group_by: 'colour' is not a grouping of usage"),
        ({"group_by": "day,month"}, "group_by: give at most one of hour, day"),
        ({"group_by": "user,user"}, "group_by: a grouping is given twice"),
        ({"view": "loaded"}, "view: 'loaded' is not a view of usage"),
        ({"as_known_at": "then"}, "as_known_at: 'then' is neither a date"),
    ],
)
def test_what_cannot_be_used_is_told(changes: dict[str, str], text: str) -> None:
    asked = {"start": "2026-01-01", "end": "2026-02-01", **changes}
    with pytest.raises(BadParameter, match=text):
        parse("usage", zone=BERLIN, **asked)

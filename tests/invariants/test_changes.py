"""What is learned late or corrected: the figures by hand, and rebuilt equals live after each change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from events import projector
from events.rebuild import known_at
from events.types.projects import ProjectMoved
from tests.hand import HOUR, ask, at, column, corrected, gpus, instant, job, mapped, place, project, read_models, total
from tests.hand import tell as tell_only

pytestmark = pytest.mark.django_db
MARCH = ("2026-03-01", "2026-04-01")


def tell(*items: object, key: str = "") -> int:
    """Say, project, and see that the tables are what a rebuild makes of the whole log."""
    position = tell_only(*items, key=key)  # type: ignore[arg-type]
    live = read_models()
    with known_at(position):
        assert read_models() == live
    with connection.cursor() as cursor:
        assert [text for group in projector.groups() for text in group.check(cursor)] == []
    return position


def by_project(start: str = MARCH[0], end: str = MARCH[1], by: str = "project") -> dict[str, int]:
    return column(ask("usage", start, end, by), by, "gpu_seconds")


def two_days(job_id: str = "1", account: str = "a", **fields: object) -> object:
    """1 GPU from 10 March 12:00 to 11 March 18:00: 12 h on the first day, 18 h on the second."""
    return job(job_id, at("2026-03-10 12:00"), at("2026-03-11 18:00"), account=account, **gpus(1), **fields)


def test_a_record_that_comes_late_is_counted_where_it_happened() -> None:
    tell(place(), two_days())
    tell(job("2", at("2026-03-10 23:00"), at("2026-03-11 01:00"), **gpus(2)))
    days = column(ask("usage", "2026-03-10", "2026-03-12", "day"), "day", "gpu_seconds")
    assert days == {"2026-03-10": (12 + 2) * HOUR, "2026-03-11": (18 + 2) * HOUR}


def test_a_running_attempt_counts_to_the_cut_and_then_to_its_end() -> None:
    start, end = at("2026-03-10 12:00"), at("2026-03-11 18:00")
    tell(place(), job("1", start, None, **gpus(1), record=5))
    for hour in (12, 13, 36):
        cut = instant(f"2026-03-{10 + hour // 24} {hour % 24}:00" if hour > 35 else f"2026-03-10 {hour}:00")
        assert total("usage", *MARCH, "gpu_seconds", cut=cut) == (hour - 12) * HOUR
    assert total("usage", *MARCH, "jobs_ended", cut=instant("2026-03-20 00:00")) == 0
    tell(job("1", start, end, **gpus(1), record=5))
    for cut in ("2026-03-10 13:00", "2026-03-20 00:00"):
        assert total("usage", *MARCH, "gpu_seconds", cut=instant(cut)) == 30 * HOUR
    assert total("usage", *MARCH, "jobs_ended") == 1


def test_a_source_that_sends_another_end_is_believed() -> None:
    tell(place(), two_days())
    tell(job("1", at("2026-03-10 12:00"), at("2026-03-10 13:00"), **gpus(1)))
    assert column(ask("usage", *MARCH, "day"), "day", "gpu_seconds")["2026-03-10"] == HOUR
    assert total("usage", *MARCH, "gpu_seconds") == HOUR


def test_a_correction_by_a_person_beats_the_source_also_what_it_sends_later() -> None:
    start = at("2026-03-10 12:00")
    tell(place(), two_days(record=5))
    tell(corrected("1", start, "end", str(at("2026-03-10 14:00"))))
    assert total("usage", *MARCH, "gpu_seconds") == 2 * HOUR
    tell(job("1", start, at("2026-03-12 00:00"), record=5, **gpus(1)))
    assert total("usage", *MARCH, "gpu_seconds") == 2 * HOUR
    tell(corrected("1", start, "gpus", "3"), corrected("1", start, "account", "b"))
    assert by_project(by="account") == {"b": 3 * 2 * HOUR}


def test_of_two_corrections_of_one_field_the_later_holds() -> None:
    start = at("2026-03-10 12:00")
    tell(place(), corrected("1", start, "gpus", "5"), two_days())
    assert total("usage", *MARCH, "gpu_seconds") == 5 * 30 * HOUR
    tell(corrected("1", start, "gpus", "2"))
    assert total("usage", *MARCH, "gpu_seconds") == 2 * 30 * HOUR
    tell(corrected("1", start, "gpus", "5"), key="again")
    assert total("usage", *MARCH, "gpu_seconds") == 5 * 30 * HOUR


def test_a_use_that_leaves_its_days_leaves_nothing_behind() -> None:
    tell(place(), two_days())
    tell(corrected("1", at("2026-03-10 12:00"), "start", str(at("2026-03-11 17:00"))))
    days = ask("usage", "2026-03-10", "2026-03-12", "day").rows
    assert [(row["gpu_seconds"], row["attempts_started"]) for row in days] == [(0, 0), (HOUR, 1)]


def test_an_account_mapped_for_the_past_takes_its_use_along() -> None:
    tell(place(), two_days())
    assert by_project() == {"unmapped/a": 30 * HOUR}
    tell(mapped("a", "p", "2026-03-01"))
    assert by_project() == {"p": 30 * HOUR}
    # Fitted in before what is known: it does not reach beyond 11 March, where the next one starts.
    tell(mapped("a", "q", "2026-03-11"))
    assert by_project() == {"p": 12 * HOUR, "q": 18 * HOUR}
    tell(mapped("a", "r", "2026-02-01"))
    assert by_project() == {"p": 12 * HOUR, "q": 18 * HOUR}
    tell(mapped("a", "r", "2026-03-01"))  # the same day again: the later statement
    assert by_project() == {"r": 12 * HOUR, "q": 18 * HOUR}


def test_a_mapping_taken_away_leaves_use_unmapped_from_its_day() -> None:
    tell(place(), two_days(), mapped("a", "p", "2026-03-01"))
    tell(mapped("a", None, "2026-03-11"))
    assert by_project() == {"p": 12 * HOUR, "unmapped/a": 18 * HOUR}
    tell(mapped("a", None, "2026-03-01"))
    assert by_project() == {"unmapped/a": 30 * HOUR}


def test_a_project_that_moves_takes_its_use_along_from_that_day() -> None:
    tell(place(), project("org", kind="organisation"), project("red", "org", "team"), project("blue", "org", "team"),
         project("p", "red"), mapped("a", "p"), two_days())  # fmt: skip
    assert by_project(by="team") == {"red": 30 * HOUR}
    tell(ProjectMoved(project="p", from_day="2026-03-11", parent="blue"))
    assert by_project(by="team") == {"red": 12 * HOUR, "blue": 18 * HOUR}
    assert by_project(by="organisation") == {"org": 30 * HOUR}
    # A team that leaves the organisation on the same day takes what hangs below it along.
    tell(ProjectMoved(project="blue", from_day="2026-03-11", parent=None))
    assert by_project(by="team") == {"red": 12 * HOUR, "blue": 18 * HOUR}
    found = by_project(by="organisation")
    assert found.pop("org") == 12 * HOUR
    assert list(found.values()) == [18 * HOUR]
    tell(ProjectMoved(project="p", from_day="2026-03-01", parent="blue"))
    assert by_project(by="team") == {"blue": 30 * HOUR}


def test_a_site_that_moves_its_midnight_moves_the_days() -> None:
    tell(place("UTC"), two_days())
    tell(place("Europe/Berlin"))
    # Midnight of Berlin is 23:00 UTC in March before the 29th: 11 h and 19 h.
    days = column(ask("usage", "2026-03-10", "2026-03-12", "day"), "day", "gpu_seconds")
    assert days == {"2026-03-10": 11 * HOUR, "2026-03-11": 19 * HOUR}


@pytest.mark.parametrize("order", [sorted, reversed])
def test_a_requeued_job_has_two_attempts_and_one_end(order: Callable[[list[object]], list[object]]) -> None:
    start = at("2026-03-10 12:00")
    first = job("1", start, start + HOUR, state="NODE_FAIL", record=5, submit=start - 60, **gpus(1))
    again = job("1", start + 3 * HOUR, start + 4 * HOUR, record=6, submit=start + HOUR, eligible=start + 2 * HOUR,
                **gpus(1))  # fmt: skip
    said = [first, again] if order is sorted else [again, first]
    for item in (place(), *said):
        tell(item)
    usage, waits = ask("usage", *MARCH).total, ask("waits", *MARCH).total
    assert [usage[name] for name in ("gpu_seconds", "attempts", "jobs_started", "jobs_ended")] == [2 * HOUR, 2, 1, 1]
    # From submit 60 s and then two hours; since eligible 0 and one hour.
    assert [waits[name] for name in ("wait_from_submit_seconds", "wait_seconds")] == [60 + 2 * HOUR, HOUR]

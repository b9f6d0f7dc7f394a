"""Pulling a slurmrestd that answers as the captured one: what is kept, what is made up after a stop, what is told."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from events import deliveries, projector
from events.access import Scope
from events.deliveries import drain
from events.models import Delivery, Event, Rejection
from fleet import actions
from fleet.models import Source
from fleet.queries import sources
from fleet.scheduler import Scheduler
from jobs import pulls, tasks
from jobs.models import Polled, Seen, Wait
from jobs.pulls import Pulled, pull
from tests.fleet.slurmrestd import TOKEN, Fake, serving

HOUR, DAY = 3600, 86_400
BEGUN, CAPTURED = 1_796_036_145, 1_796_036_470
"""Epoch seconds: first accounting of the capture (its window begins there), and when it was captured."""


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_gauge", deliveries._Gauge())


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"SLURM_JWT={TOKEN}\n")
    return path


def when(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def added(fake: Fake, token: Path, since: int = BEGUN - 60, **more: Any) -> Source:
    given = {"url": fake.url, "token_file": str(token), "cluster": "pod-a", "user": "root", "every": 10,
             "since": when(since), "accounting": True, "actor": "test", **more}  # fmt: skip
    return actions.add_pulled("a", **given)


def asked(at: int = CAPTURED) -> Pulled:
    done = pull("a", clock=lambda: when(at))
    while drain():
        pass
    return done


def reported(source: str) -> set[str]:
    return set(Event.objects.filter(type="job.reported", source=source).values_list("stream", flat=True))


def kept(kind: str = "slurmdb-jobs") -> list[list[dict[str, Any]]]:
    rows = Delivery.objects.filter(kind=kind).order_by("received_at")
    return [json.loads(bytes(row.body))["jobs"] for row in rows]


@pytest.mark.django_db
def test_a_first_pull_takes_all_that_was_captured_and_a_second_one_nothing(fake: Fake, token: Path) -> None:
    added(fake, token)
    done = asked()
    assert (done.troubles, done.shown, done.changed) == ([], 108, 108)
    # What never became eligible is in slurmctld only, as oddity 22 of the capture says.
    never = [one for one in fake.records if not one["time"]["eligible"]]
    assert done.new == 110 - len(never)
    assert not Rejection.objects.exists()
    assert len(reported("slurmctld:pod-a")) == 108
    assert reported("slurmdbd:pod-a") == {
        f"job/pod-a/{record['job_id']}" for record in fake.records if record not in never
    }
    before = Event.objects.count(), Delivery.objects.count()
    again = asked(CAPTURED + 10)
    assert (again.troubles, again.shown, again.changed, again.new) == ([], 108, 0, 0)
    assert (Event.objects.count(), Delivery.objects.count()) == before


@pytest.mark.django_db
def test_only_what_changed_is_kept_and_what_moves_by_itself_is_no_change(fake: Fake, token: Path) -> None:
    added(fake, token)
    asked()
    for job in fake.jobs:
        job["priority"] = job.get("priority", 0) + 1
        job["last_sched_evaluation"] = CAPTURED + 5
    for one in fake.records:
        if not one["time"]["end"]:  # it runs or waits, ten seconds longer than before
            one["time"]["elapsed"] += 10
            for step in one["steps"]:
                step["time"]["elapsed"] += 10
    changed = fake.jobs[3]
    changed["account"] = "speech" if changed["account"] != "speech" else "vision"
    done = asked(CAPTURED + 10)
    assert (done.changed, done.new) == (1, 0)
    assert kept("slurmctld-jobs")[-1] == [changed]


@pytest.mark.django_db
def test_why_a_job_waits_may_change_to_and_fro(fake: Fake, token: Path) -> None:
    added(fake, token)
    waiting = next(job for job in fake.jobs if job["job_id"] == 74)
    assert (waiting["job_state"], waiting["state_reason"], waiting["submit_time"]) == (
        "PENDING", "Resources", 1796036330,
    )  # fmt: skip
    for seconds, reason in ((0, "Resources"), (30, "Priority"), (60, "Priority"), (90, "Resources"), (120, "Priority")):
        waiting["state_reason"] = reason
        asked(CAPTURED + seconds)
    projector.catch_up()
    found = Wait.objects.filter(stream="job/pod-a/74").order_by("seq").values_list("cause", "start", "end")
    # It had waited 140 s at the first look, which speaks of that time too.
    assert list(found) == [
        ("full", when(1796036330), when(CAPTURED + 30)),
        ("own_share", when(CAPTURED + 30), when(CAPTURED + 90)),
        ("full", when(CAPTURED + 90), when(CAPTURED + 120)),
        ("own_share", when(CAPTURED + 120), None),
    ]
    # What was kept changes nothing when it is taken in once more.
    before = Event.objects.count()
    Delivery.objects.filter(kind="slurmctld-jobs").update(state="pending", tries=0)
    while drain():
        pass
    assert Event.objects.count() == before


def record(job_id: int, start: int, end: int) -> dict[str, Any]:
    """A captured record under another number and at another time; end 0: it runs."""
    made = copy.deepcopy(next(one for one in Fake().records if one["time"]["end"]))
    made["job_id"] = job_id
    made["time"] |= {"submission": start, "eligible": start, "start": start, "end": end,
                     "elapsed": end - start if end else 0}  # fmt: skip
    made["state"]["current"] = "COMPLETED" if end else "RUNNING"
    return made


@pytest.mark.django_db
def test_what_ended_during_a_stop_is_found_by_its_end_also_after_weeks(fake: Fake, token: Path) -> None:
    begun = CAPTURED - 20 * DAY
    added(fake, token, since=begun)
    fake.records = [record(5000, begun - DAY, 0)]
    fake.jobs = []
    assert asked(begun + 10).new == 1  # it runs: each window shows it
    fake.records = [record(5000, begun - DAY, begun + 7 * DAY), record(5001, begun + 60, begun + 90)]
    fake.asked.clear()
    done = asked()
    assert (done.troubles, done.new, done.behind) == ([], 2, False)
    ends = Event.objects.filter(stream="job/pod-a/5000", source="slurmdbd:pod-a").order_by("position")
    assert [event.data.get("end") for event in ends][-1] == begun + 7 * DAY
    windows = [path.partition("start_time=")[2].split("&") for path in fake.asked if "slurmdb" in path]
    assert windows[0] == [f"uts{begun + 10 - 120}", f"end_time=uts{begun + 10 - 120 + DAY}"]
    assert len(windows[19]) == 2  # twenty whole days
    assert windows[20] == [f"uts{begun + 10 - 120 + 20 * DAY}"]  # and what is left, without an end
    assert Source.objects.get().watermark == when(CAPTURED)


@pytest.mark.django_db
def test_records_that_slurmctld_held_back_during_an_outage_are_found_after_it(fake: Fake, token: Path) -> None:
    """slurmdbd is away for 10 h; on its return the first pull finds nothing of them: they come a minute later."""
    begun = CAPTURED - 10 * DAY - 43_200  # the middle of a day, so that the daily look does not find it
    added(fake, token, since=begun)
    fake.jobs, fake.records = [], []
    for number in range(4):
        asked(begun + number * HOUR)  # the trail follows
    away = begun + 3 * HOUR
    fake.answers["/slurmdb"] = (500, b'{"errors": [{"description": "Unable to connect to database"}]}')
    for number in range(1, 11):
        assert asked(away + number * HOUR).troubles
    assert Source.objects.get().watermark == when(away)
    fake.answers.clear()
    back = away + 10 * HOUR
    assert asked(back + 10).troubles == []
    Source.objects.update(deep_at=when(back + 10))
    fake.records = [record(6000, away + HOUR, away + 2 * HOUR)]
    assert asked(back + 60).new == 0  # too far back for the short look
    assert asked(back + 700).new == 1
    assert reported("slurmdbd:pod-a") == {"job/pod-a/6000"}


@pytest.mark.django_db
def test_once_a_day_it_looks_two_days_back(fake: Fake, token: Path) -> None:
    noon = CAPTURED - CAPTURED % DAY - 9 * DAY - DAY // 2
    added(fake, token, since=noon)
    fake.jobs, fake.records = [], []
    for number in range(4):
        asked(noon + number * HOUR)
    fake.records = [record(7000, noon - 86_000, noon - 85_000)]
    assert asked(noon + 4 * HOUR).new == 0
    assert asked(noon + DAY // 2 + 60).new == 1  # the next day (UTC) has begun


def test_after_a_crash_between_keeping_and_the_watermark_nothing_is_lost(
    hall: Any, fake: Fake, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(fake, token)

    class Killed(BaseException):
        pass

    def die(self: Any, end: datetime) -> None:
        assert Delivery.objects.filter(kind="slurmdb-jobs").exists()  # written, not committed
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pulls._Pull, "_move_watermark", die)
        with pytest.raises(Killed):
            pull("a", clock=lambda: when(CAPTURED))
    assert not Delivery.objects.filter(kind="slurmdb-jobs").exists()
    assert not Polled.objects.filter(view="slurmdbd").exists()
    assert Source.objects.get().watermark == when(BEGUN - 60)
    assert asked().new > 90


@pytest.mark.django_db
def test_an_answer_that_is_too_large_is_asked_for_in_smaller_slices(fake: Fake, token: Path, settings: Any) -> None:
    added(fake, token, since=BEGUN - 3 * 86_400)
    jobs, records = (len(json.dumps(rows)) for rows in (fake.jobs, fake.records))
    settings.PULL_MAX_BYTES = records - 40_000  # the densest minute has 92 % of it
    assert jobs < settings.PULL_MAX_BYTES
    done = asked()
    expected = sum(bool(one["time"]["eligible"]) for one in fake.records)
    assert done.troubles == []
    assert (done.new, len(Delivery.objects.filter(kind="slurmdb-jobs"))) == (expected, len(kept()))
    assert sum(map(len, kept())) == expected
    assert Source.objects.get().slice_seconds < 86_400


@pytest.mark.django_db
def test_a_minute_that_is_too_large_is_told(fake: Fake, token: Path, settings: Any) -> None:
    added(fake, token)
    settings.PULL_MAX_BYTES = 500_000  # the densest minute has 0.6 MB
    done = asked()
    assert any("more than 500,000 bytes" in text for text in done.troubles)
    assert Source.objects.get().last_error


@pytest.mark.django_db
def test_each_part_fails_alone_and_is_told(fake: Fake, token: Path) -> None:
    added(fake, token)
    fake.answers["/slurmdb/v0.0.38/jobs"] = (500, b'{"errors": [{"description": "Unable to connect to database"}]}')
    done = asked()
    assert (done.changed, done.new) == (108, 0)
    (trouble,) = done.troubles
    assert "Unable to connect to database" in trouble
    (state,) = [one for one in sources(Scope.everything()) if one.name]
    assert (state.failing, state.last_success, state.last_error) == (True, None, trouble)
    fake.answers = {"/slurm/": (500, b'{"errors": [{"description": "no slurmctld"}]}')}
    done = asked(CAPTURED + 20)
    assert done.new > 90
    assert "no slurmctld" in done.troubles[0]
    fake.answers.clear()
    assert asked(CAPTURED + 30).troubles == []
    (state,) = [one for one in sources(Scope.everything()) if one.name]
    assert (state.failing, state.last_success, state.pulls) == (False, when(CAPTURED + 30), 3)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "junk", [b'{"jobs":[1,2,null,"x",[]]}', b'{"jobs":[{"cluster":"a\\u0000b"}]}', b'{"jobs":[{"job_id":{}}]}', b"{}"]
)
def test_whatever_it_answers_the_pull_is_settled_and_taken_for_a_failure_or_refused(
    fake: Fake, token: Path, junk: bytes
) -> None:
    """A pull that is not settled would be tried again every second."""
    added(fake, token, accounting=False)
    fake.answers["/slurm/"] = (200, junk)
    done = asked()
    source = Source.objects.get(name="a")
    assert source.last_try == when(CAPTURED)
    assert bool(done.troubles) == bool(source.failures)
    assert done.troubles or Rejection.objects.exists()
    assert "\0" not in source.last_error


@pytest.mark.django_db
def test_an_upgrade_of_slurm_is_followed(fake: Fake, token: Path) -> None:
    added(fake, token)
    asked()
    assert Source.objects.get().api_version == "v0.0.38"
    fake.version = "v0.0.40"
    fake.openapi = json.dumps({"paths": {f"/{name}/v0.0.40/jobs/": {} for name in ("slurm", "slurmdb")}}).encode()
    assert "404" in asked(CAPTURED + 10).troubles[0]
    assert asked(CAPTURED + 20).troubles == []
    assert Source.objects.get().api_version == "v0.0.40"


@pytest.mark.django_db
def test_a_cluster_of_another_name_is_not_taken(fake: Fake, token: Path) -> None:
    added(fake, token, cluster="pod-b")
    done = asked()
    assert "it calls its cluster 'pod-a'" in done.troubles[0]
    assert Delivery.objects.count() == 0


@pytest.mark.django_db
def test_it_waits_while_too_many_deliveries_wait(fake: Fake, token: Path, settings: Any) -> None:
    added(fake, token)
    settings.MAX_PENDING_DELIVERIES = 0
    assert "deliveries wait" in asked().troubles[0]
    assert fake.asked == []


@pytest.mark.django_db
def test_without_slurmdbd_only_the_jobs_are_asked_for(fake: Fake, token: Path) -> None:
    added(fake, token, accounting=False)
    assert asked().troubles == []
    assert not [path for path in fake.asked if "slurmdb" in path]


@pytest.mark.django_db
def test_a_token_that_is_replaced_is_read_anew_and_never_kept(fake: Fake, token: Path) -> None:
    added(fake, token)
    token.write_text("old\n")
    assert "bad or expired token" in asked().troubles[0]
    token.write_text(f"{TOKEN}\n")
    assert asked(CAPTURED + 10).troubles == []
    token.unlink()
    assert "cannot be read" in asked(CAPTURED + 20).troubles[0]
    with connection.cursor() as cursor:
        for table in ("fleet_source", "events_delivery", "events_event", "events_tally"):
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{TOKEN}%"])
            assert cursor.fetchone() == (0,)


def test_two_processes_never_pull_one_source_at_once(hall: Any, fake: Fake, token: Path) -> None:
    added(fake, token)
    fake.gate.clear()
    troubles: list[Any] = []

    def other() -> None:
        try:
            troubles.append(pull("a").troubles)
        finally:
            connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    while not fake.asked:
        time.sleep(0.01)
    with pytest.raises(pulls.Busy):
        pull("a")
    fake.gate.set()
    thread.join()
    assert len(troubles) == 1


def test_a_scheduler_that_hangs_does_not_hold_the_worker(hall: Any, fake: Fake, token: Path) -> None:
    """The worker does one task after the other: each has to end while the scheduler still hangs."""
    added(fake, token)
    fake.gate.clear()
    tasks.pull()
    thread = tasks._running["a"]
    while not fake.asked:
        time.sleep(0.01)
    tasks.pull()  # the next tick finds it at work
    assert tasks._running["a"] is thread
    assert thread.is_alive()
    assert fake.asked == ["/openapi/v3"]
    fake.gate.set()
    thread.join(30)
    assert Source.objects.get().pulls == 1
    assert Event.objects.filter(type="job.reported").count() > 200  # taken in by the thread that brought it


@pytest.mark.django_db
def test_when_a_source_is_due(fake: Fake, token: Path) -> None:
    source = added(fake, token)
    now = when(CAPTURED)
    assert tasks.due(now) == ["a"]
    for failures, seconds in ((0, 10), (1, 20), (2, 40), (3, 60), (30, 60)):
        Source.objects.filter(name="a").update(last_try=now, failures=failures)
        assert tasks.due(now + timedelta(seconds=seconds - 1)) == []
        assert tasks.due(now + timedelta(seconds=seconds)) == ["a"]
    actions.pause("a", paused=True)
    assert tasks.due(now + timedelta(days=1)) == []
    actions.pause(source.name, paused=False)
    assert tasks.due(now + timedelta(seconds=10)) == ["a"]


@pytest.mark.django_db
def test_a_large_document_is_kept_in_parts(fake: Fake, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulls.polled.chunks, "__defaults__", (100_000, "jobs"))
    added(fake, token)
    asked()
    parts = kept("slurmctld-jobs")
    assert len(parts) == 4  # of 361 kB
    assert [job for part in parts for job in part] == fake.jobs
    assert not Rejection.objects.exists()


@pytest.mark.django_db
def test_polls_say_which_attempts_run(fake: Fake, token: Path) -> None:
    added(fake, token)
    asked()
    projector.catch_up()
    running = {str(job["job_id"]) for job in fake.jobs if job["job_state"] == "RUNNING"}
    assert running == {"3", "99", "107", "108"}
    assert set(Seen.objects.values_list("job_id", flat=True)) == running
    assert set(Seen.objects.values_list("missing_from", flat=True)) == {None}


def test_the_deadline_is_for_the_whole_answer(
    hall: Any, fake: Fake, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(fake, token)
    real = Scheduler.__init__
    monkeypatch.setattr(Scheduler, "__init__", lambda self, *a, **k: real(self, *a, **{**k, "seconds": 0.3}))
    fake.dribble = True
    begun = time.monotonic()
    done = pull("a", clock=lambda: when(CAPTURED))
    assert time.monotonic() - begun < 20
    assert "no whole answer" in done.troubles[0]
    with transaction.atomic():
        assert Source.objects.get().failures == 1

"""The projector: layers, poison events, parking and stopping, and two runners at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections

from events import projector
from events.append import Fact, append, fact
from events.projector import Batch, Group
from events.queries import as_of, head_position
from events.rebuild import Difference, compare, rebuild
from events.types.clusters import ClusterDeclared
from jobs import projections
from tests.hand import HOUR, ask, at, gpus, job, place, rate, read_models, say, tell


def progress() -> dict[str, tuple[int, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_name, position, state, error FROM events_progress")
        return {name: (position, state, error) for name, position, state, error in cursor.fetchall()}


def parked() -> list[tuple[str, int, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_name, position, stream FROM events_parked ORDER BY position")
        return cursor.fetchall()


def group(name: str) -> Group:
    return next(found for found in projector.groups() if found.name == name)


def raw(name: str, number: int, data: bytes = b"") -> Fact:
    """A cluster.declared whose data nobody has checked."""
    made = fact(ClusterDeclared(cluster=name), type_="cluster.declared", source="s", source_key=f"{name}{number}",
                occurred_us=number, actor="t")  # fmt: skip
    return made._replace(data=data or made.data)


def hour(job_id: str) -> Any:
    start = at("2026-03-10 06:00")
    return job(job_id, start, start + HOUR, **gpus(1))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that cannot bear the job called `bad`."""
    fold = projections.fold

    def refuse(sightings: Any) -> Any:
        if any(one.data.job_id == "bad" for one in sightings):
            raise ValueError("cannot bear it")
        return fold(sightings)

    monkeypatch.setattr(projections, "fold", refuse)


class Probe:
    """A group that folds streams into memory and cannot bear one position while it is broken."""

    def __init__(self, poison: int, *, money: bool = False, layer: int = 0) -> None:
        self.poison, self.broken = poison, True
        self.folded: dict[str, list[int]] = {}
        self.group = Group("probe", layer, 1, (), self.apply, money=money)

    def apply(self, batch: Batch) -> None:
        batch.touch_streams("touched_probe", ("cluster.declared",))
        batch.cursor.execute(
            f"""SELECT e.stream, e.position FROM touched_probe t JOIN events_event e ON e.stream = t.stream
                WHERE e.position <= {batch.end} AND {batch.visible()} ORDER BY e.position"""
        )
        found: dict[str, list[int]] = {}
        for stream, position in batch.cursor.fetchall():
            if self.broken and position == self.poison:
                raise ValueError("poison")
            found.setdefault(stream, []).append(position)
        self.folded.update(found)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a probe as the only group there is."""

    def put(probe: Probe) -> Probe:
        monkeypatch.setattr(projector, "_GROUPS", {"probe": probe.group})
        return probe

    return put


@pytest.mark.django_db
class TestMoney:
    """Groups whose rows are money stop at an event they cannot apply, and say where."""

    def test_stops_before_the_event_and_says_its_position(self, broken: None) -> None:
        say(place(), *(hour(str(number)) for number in range(1, 12)), hour("bad"), hour("after"), rate("gpu", 1))
        projector.catch_up()
        assert progress()["jobs"] == (12, "stopped", "position 13: ValueError: cannot bear it")
        assert parked() == []
        # What came before is there, what comes after waits; billing waits with it, fleet does not.
        assert ask("usage", "2026-03-01", "2026-04-01").total["jobs_ended"] == 11
        assert (progress()["fleet"][0], progress()["billing"][0]) == (15, 12)
        assert as_of().position == 12

    def test_goes_on_once_the_rules_are_mended(self, broken: None, monkeypatch: pytest.MonkeyPatch) -> None:
        say(place(), hour("1"), hour("bad"), hour("after"), rate("gpu", 1))
        projector.catch_up()
        monkeypatch.undo()
        projector.catch_up()
        assert {name: found[:2] for name, found in progress().items()} == dict.fromkeys(
            ("fleet", "jobs", "billing"), (5, "live")
        )
        assert ask("usage", "2026-03-01", "2026-04-01").total["jobs_ended"] == 3
        assert progress()["jobs"][2] == ""

    def test_an_event_of_a_version_from_the_future_stops_it(self) -> None:
        append([raw("x", 1), raw("y", 2)._replace(type="job.reported", version=9, stream="job/pod-a/9")])
        projector.catch_up()
        position, state, error = progress()["jobs"]
        assert (position, state) == (1, "stopped")
        assert error == "position 2: UnknownType: unknown event type job.reported version 9"

    def test_a_type_that_no_group_reads_is_passed_over(self) -> None:
        append([raw("x", 1)._replace(type="door.opened", stream="door/1", version=3), raw("y", 2)])
        projector.catch_up()
        assert {found[:2] for found in progress().values()} == {(2, "live")}


@pytest.mark.django_db
class TestParking:
    """Other groups park the event, hold what follows in its stream, and go on with the rest."""

    def test_parks_the_event_and_holds_its_stream(self, alone: Any) -> None:
        probe = alone(Probe(3))
        append([raw("a", 1), raw("b", 2), raw("b", 3), raw("c", 4), raw("b", 5), raw("a", 6)])
        projector.catch_up()
        assert parked() == [("probe", 3, "cluster/b")]
        assert progress()["probe"][:2] == (6, "live")
        assert probe.folded == {"cluster/a": [1, 6], "cluster/b": [2], "cluster/c": [4]}
        append([raw("b", 7), raw("c", 8)])
        projector.catch_up()
        assert probe.folded == {"cluster/a": [1, 6], "cluster/b": [2], "cluster/c": [4, 8]}

    def test_is_retried_after_the_fix_and_catches_up_its_stream(self, alone: Any) -> None:
        probe = alone(Probe(1))
        append([raw("b", 1), raw("a", 2), raw("b", 3)])
        projector.catch_up()
        assert probe.folded == {"cluster/a": [2]}
        assert projector.retry_parked(probe.group) == (0, 1)
        assert parked() == [("probe", 1, "cluster/b")]
        probe.broken = False
        assert projector.retry_parked(probe.group) == (1, 0)
        assert (parked(), probe.folded) == ([], {"cluster/a": [2], "cluster/b": [1, 3]})

    @pytest.mark.parametrize("poison", [1, 4, 7])
    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_wherever_it_lies_and_whatever_the_batch(self, alone: Any, poison: int, size: int) -> None:
        probe = alone(Probe(poison))
        append([raw(name, number) for number, name in enumerate("abcdefg", 1)])
        projector.catch_up(batch=size)
        assert [position for _, position, _ in parked()] == [poison]
        assert sorted(at for found in probe.folded.values() for at in found) == [n for n in range(1, 8) if n != poison]

    def test_a_group_that_fails_without_its_event_is_not_parked_for_ever(self, alone: Any) -> None:
        class Always(Probe):
            def apply(self, batch: Batch) -> None:
                raise ValueError("whatever comes")

        alone(Always(0))
        append([raw("a", 1), raw("b", 2)])
        with pytest.raises(ValueError, match="whatever comes"):
            projector.catch_up()

    def test_a_cluster_that_cannot_be_stored_does_not_stop_the_others(self) -> None:
        append([raw("good", 1), raw("bad", 2, b'{"cluster":"bad","gpus":"many"}'), raw("bad", 3), raw("fine", 4)])
        say(place(), hour("1"))
        projector.catch_up()
        assert parked() == [("fleet", 2, "cluster/bad")]
        assert {found[:2] for found in progress().values()} == {(6, "live")}
        assert ask("usage", "2026-03-01", "2026-04-01").total["gpu_seconds"] == HOUR
        assert len(read_models()["fleet_cluster"]) == 2


@pytest.mark.django_db
class TestLayers:
    """A layer goes no further than the layers before it."""

    def test_billing_never_passes_jobs(self) -> None:
        say(place(), hour("1"), rate("gpu", 1))
        fleet, jobs, billing = group("fleet"), group("jobs"), group("billing")
        assert [projector.advance(jobs), projector.advance(billing)] == [False, False]
        projector.advance(fleet, batch=2)
        assert projector.advance(billing) is False
        for size, reached in ((1, 1), (1, 2), (5, 2)):
            projector.advance(jobs, batch=size)
            projector.advance(billing, batch=5)
            assert (projector.position(jobs), projector.position(billing)) == (reached, reached)
        projector.catch_up()
        assert {projector.position(one) for one in projector.groups()} == {3} == {head_position()}

    def test_nothing_to_do_is_nothing_done(self) -> None:
        assert projector.catch_up() == 0
        tell(place())
        assert projector.catch_up() == 0


def test_two_runners_at_once_one_works_and_one_skips(hall: dict[str, str], alone: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Probe):
        def apply(self, batch: Batch) -> None:
            super().apply(batch)
            if batch.end > 1:
                begun.set()
                assert go_on.wait(20)

    probe = alone(Slow(0))
    append([raw("a", 1)])
    assert projector.advance(probe.group)
    append([raw("a", 2), raw("b", 3)])
    done: list[bool] = []

    def work() -> None:
        try:
            done.append(projector.advance(probe.group))
        finally:
            connections.close_all()

    other = threading.Thread(target=work)
    other.start()
    assert begun.wait(20)
    assert projector.advance(probe.group) is False  # at once: it does not wait for the other
    assert projector.position(probe.group) == 1
    go_on.set()
    other.join(20)
    assert done == [True]
    assert (projector.position(probe.group), probe.folded) == (3, {"cluster/a": [1, 2], "cluster/b": [3]})


def test_what_is_rebuilt_is_compared_and_swapped_in(hall: dict[str, str]) -> None:
    tell(place(), hour("1"), rate("gpu", 1_000_000))
    compare(projector.groups())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_usageday SET gpu_seconds = gpu_seconds + 1")
    with pytest.raises(Difference, match="jobs_usageday: rebuilt, but not live"):
        compare(projector.groups())
    assert rebuild(projector.groups()) == {"fleet": 3, "jobs": 3, "billing": 3}
    compare(projector.groups())
    assert ask("costs", "2026-03-01", "2026-04-01").total["amount"]["amount"] == "1.00"
    tell(hour("2"))  # the application's role may go on writing the tables that were swapped in
    assert ask("costs", "2026-03-01", "2026-04-01").total["amount"]["amount"] == "2.00"

"""What prologs and epilogs add to the fold: runs told by scripts alone, restart counts, GPUs of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from events.derive.attempts import Sighting, fold
from tests.events.derive.sightings import DAY, attempt, gpu_seconds, only, spans, told

DONE = told("COMPLETED", record=1, gpus=8, nodes=2, submit=100, start=110, end=200)
"""Two nodes of four GPUs, by the accounting."""


def began(at: int, node: str | None = None, position: int = 2, **data: Any) -> Sighting:
    """A prolog: of a node, or of the whole job."""
    indices = data.pop("gpus_of_node", "0-3")
    more = {"gpu_indices": (f"{node}={indices}",)} if node else {}
    return told("RUNNING", position, "hook:pod-a", start=at, **more, **data)


def freed(at: int, node: str, position: int = 3, **data: Any) -> Sighting:
    """The epilog of a node."""
    return told("COMPLETING", position, "hook:pod-a", end=at, node_list=node, **data)


def over(at: int, position: int = 4, **data: Any) -> Sighting:
    """The epilog of the whole job."""
    return told("UNKNOWN", position, "epilogslurmctld:pod-a", end=at, **data)


class TestScriptsAlone:
    def test_the_first_script_and_the_epilog_of_the_job_are_the_run(self) -> None:
        one = attempt(began(112, "n1", 1, nodes=2), began(111, position=2, nodes=2), began(114, "n2", 3), over(201, 4))
        # 90 s on two nodes of four GPUs each, as their prologs say: 8 x 90.
        assert (spans(one), gpu_seconds(one)) == ([(111, 201, 8)], 720)
        assert (one.state, one.confirmed, one.disagree) == ("UNKNOWN", False, False)
        assert one.gpu_indices == ("n1=0-3", "n2=0-3")

    def test_without_the_prolog_of_a_node_the_count_is_not_known(self) -> None:
        one = attempt(began(111, "n1", 1, nodes=2), over(201))
        assert (one.segments[0].gpus, one.gpu_indices) == (None, ("n1=0-3",))

    def test_a_run_goes_on_until_every_node_is_free(self) -> None:
        prologs = [began(111, "n1", 1, nodes=2), began(111, "n2", 2, nodes=2)]
        running = attempt(*prologs, freed(150, "n2", 3))
        assert (running.end, running.state) == (None, "COMPLETING")
        ended = attempt(*prologs, freed(150, "n2", 3), freed(202, "n1", 5))
        assert (spans(ended), ended.state) == ([(111, 202, 8)], "UNKNOWN")
        again = attempt(*prologs, freed(150, "n2", 3), freed(151, "n2", 5))
        assert again.end is None  # one node twice is one node

    def test_a_node_that_is_free_does_not_name_the_nodes_of_the_run(self) -> None:
        one = attempt(began(111, "n1", 1, nodes=2, node_list="n[1-2]"), freed(150, "n2"))
        assert one.node_list == "n[1-2]"

    def test_the_epilog_of_the_job_beats_those_of_nodes(self) -> None:
        one = attempt(began(111, "n1", 1, nodes=1), freed(203, "n1"), over(201))
        assert (one.end, one.disagree) == (201, False)

    def test_all_nodes_free_ends_what_the_accounting_still_shows_as_running(self) -> None:
        running = told("RUNNING", 1, record=1, start=110, submit=100, nodes=1, gpus=4)
        one = attempt(running, began(111, "n1"), freed(201, "n1"))
        assert (spans(one), one.state, one.confirmed) == ([(110, 201, 4)], "UNKNOWN", True)

    def test_the_accounting_has_the_last_word(self) -> None:
        one = attempt(DONE, began(111, "n1", 2, nodes=2), freed(202, "n1", 3), over(201))
        assert (spans(one), one.state, one.disagree) == ([(110, 200, 8)], "COMPLETED", False)

    def test_of_two_epilogs_the_later_one_counts_whichever_arrived_last(self) -> None:
        """One of its own, and one of a run whose prolog never arrived: at the first, the run had not ended."""
        assert attempt(began(111), over(150, position=9), over(160, position=4)).end == 160

    def test_a_scheduler_that_says_running_gives_the_start_to_an_epilog(self) -> None:
        one = attempt(told("RUNNING", 1, record=1, start=110), over(190, start=112))
        assert (one.start, one.end) == (110, 190)

    def test_a_lone_epilog_is_no_run(self) -> None:
        assert only(over(201)).attempts == ()
        assert only(freed(201, "n1", nodes=1)).attempts == ()

    def test_a_lone_epilog_that_knows_the_start_is_one(self) -> None:
        one = attempt(freed(201, "n1", nodes=1, start=110, gpu_indices=("n1=0-1",)))
        assert (spans(one), gpu_seconds(one)) == ([(110, 201, 2)], 182)


class TestMatching:
    def test_a_script_while_nodes_still_boot_is_of_the_run_that_follows(self) -> None:
        """PrologSlurmctld runs before the scheduler's start, where nodes must be powered on first."""
        assert attempt(began(103), DONE).sources == ("hook:pod-a", "sacct:pod-a")
        waiting = told("PENDING", 1, record=1, submit=100, eligible=100)
        assert attempt(waiting, began(103)).confirmed

    @pytest.mark.parametrize("counts", [(0, 1), (None, None), (0, None), (None, 1)])
    def test_a_prolog_near_a_requeue_is_of_its_own_run(self, counts: tuple[int | None, int | None]) -> None:
        first = told("REQUEUED", 1, record=1, submit=100, start=110, end=111)
        second = told("COMPLETED", 2, record=2, submit=111, start=130, end=200)
        prologs = [began(111, "n1", 3, restarts=counts[0]), began(131, "n2", 4, restarts=counts[1])]
        places = [one.gpu_indices for one in only(first, second, *prologs).attempts]
        assert places == [("n1=0-3",), ("n2=0-3",)]

    def test_other_counts_are_other_runs_whatever_the_times(self) -> None:
        """The epilog of the first run never came: its node lost power."""
        first, second = only(began(110, "n1", 1, restarts=0, nodes=1), began(300, "n2", 2, restarts=1)).attempts
        assert (first.start, first.end, first.disagree) == (110, 300, True)
        assert (second.start, second.end) == (300, None)

    def test_the_same_count_is_the_same_run_though_a_clock_is_wrong(self) -> None:
        shown = told("COMPLETED", 1, "slurmctld:pod-a", submit=100, start=110, end=200, restarts=1)
        assert len(only(shown, began(80, "n1", restarts=1)).attempts) == 1
        assert len(only(shown, began(80, "n1", restarts=0)).attempts) == 2

    def test_the_same_count_long_ago_is_another_life_of_the_id(self) -> None:
        shown = told("COMPLETED", 1, "slurmctld:pod-a", submit=3 * DAY, start=3 * DAY, end=3 * DAY + 9, restarts=0)
        assert len([one for job in fold([shown, began(80, "n1", restarts=0)]) for one in job.attempts]) == 2

    def test_a_hidden_requeue(self) -> None:
        """sacct without -D shows the last record only: the scripts tell of the run before it."""
        last = told("COMPLETED", 1, record=2, submit=200, start=220, end=300, gpus=4, nodes=1)
        said = [began(111, "n1", 2, restarts=0, nodes=1), over(200, 3), began(221, "n1", 4, restarts=1), over(301, 5)]
        first, second = only(last, *said).attempts
        assert (first.start, first.end, first.confirmed, gpu_seconds(first)) == (111, 200, False, 4 * 89)
        assert (second.start, second.end, second.confirmed, gpu_seconds(second)) == (220, 300, True, 4 * 80)

    def test_an_epilog_at_the_end_of_a_run_is_not_of_the_next_one(self) -> None:
        first = told("PREEMPTED", 1, record=1, submit=100, start=110, end=112)
        second = told("RUNNING", 2, record=2, submit=112, start=113)
        ended, running = only(first, second, over(113)).attempts
        assert (ended.end, ended.sources, running.end) == (112, ("epilogslurmctld:pod-a", "sacct:pod-a"), None)

    def test_a_count_of_zero_names_the_run_of_an_epilog(self) -> None:
        first = began(110, "n1", 1, restarts=0, nodes=1)
        second = began(150, "n1", 2, restarts=1, nodes=1)
        late = only(first, second, over(160, restarts=0)).attempts
        assert [(one.start, one.end) for one in late] == [(110, 160), (150, None)]


class TestJobs:
    """A requeue adds one to the restart count; an id that is used again starts at none."""

    def test_a_later_requeue_by_a_person_is_the_same_job(self) -> None:
        first = told("FAILED", 1, "slurmctld:pod-a", submit=100, start=110, end=200, restarts=0)
        second = told("COMPLETED", 2, "slurmctld:pod-a", submit=9_000, start=9_010, end=9_020, restarts=1)
        assert len(fold([first, second])) == 1
        assert len(only(DONE, began(9_010, "n1", restarts=1)).attempts) == 2
        assert len(only(DONE, second).attempts) == 2  # sacct alone counts nothing: one count that is not 0 will do

    def test_a_count_that_falls_is_another_job(self) -> None:
        first = [began(110, position=1, restarts=2), over(200, 2)]
        assert [job.seq for job in fold([*first, began(500, position=3, restarts=0)])] == [1, 2]
        assert len(fold([*first, began(500, position=3, restarts=3)])) == 1
        assert len(fold([*first, began(500 + 31 * DAY, position=3, restarts=3)])) == 2


class TestIndices:
    def test_prolog_before_scheduler_before_epilog(self) -> None:
        """A node that a resize gave back shows the wrong GPUs to its epilog (job 15 of the capture)."""
        epilog = freed(150, "n1", 3, gpu_indices=("n1=0-1",))
        shown = told("RUNNING", 4, "slurmctld:pod-a", submit=100, start=110, gpu_indices=("n1=2-3", "n2=6"))
        prolog = began(111, "n1", 2, gpus_of_node="4-5")
        assert attempt(DONE, epilog).gpu_indices == ("n1=0-1",)
        assert attempt(DONE, epilog, shown).gpu_indices == ("n1=2-3", "n2=6")
        assert attempt(DONE, epilog, shown, prolog).gpu_indices == ("n1=4-5", "n2=6")

    def test_the_parts_of_a_resized_run_are_put_together(self) -> None:
        before = told("RESIZING", 1, record=15, submit=275, start=277, end=302, gpus=4, nodes=2)
        after = told("COMPLETED", 2, record=92, submit=302, start=277, end=318, gpus=2, nodes=1)
        grown = began(303, "n3", 5)
        one = attempt(before, after, began(278, "n1", 3), began(278, "n2", 4), grown)
        assert one.gpu_indices == ("n1=0-3", "n2=0-3", "n3=0-3")
        assert spans(one) == [(277, 302, 4), (302, 318, 2)]

    @pytest.mark.parametrize(("told_gpus", "count"), [
        ("0-3,6", 5), ("0", 1), ("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77,GPU-8f3a2c1e-aaaa-bbbb-cccc-1234567890", 2),
        ("MIG-GPU-1/0/0", 1), ("10-15", 6),
    ])  # fmt: skip
    def test_counts(self, told_gpus: str, count: int) -> None:
        one = attempt(began(110, "n1", 1, gpus_of_node=told_gpus, nodes=1), over(120))
        assert gpu_seconds(one) == 10 * count

    def test_a_count_of_the_accounting_stays(self) -> None:
        small = told("COMPLETED", record=1, gpus=2, nodes=1, submit=100, start=110, end=200)
        assert attempt(small, began(111, "n1", gpus_of_node="0-7", nodes=1)).segments[0].gpus == 2
        silent = told("COMPLETED", record=1, nodes=1, submit=100, start=110, end=200)
        assert attempt(silent, began(111, "n1", gpus_of_node="0-7", nodes=1)).segments[0].gpus == 8

    def test_what_only_waits_holds_no_gpu(self) -> None:
        assert only(told("PENDING", 1, "slurmctld:x", submit=100, gpu_indices=("n1=0",))).attempts == ()


class TestRun:
    def test_it_is_the_one_that_the_comment_outside_the_accounting_names(self) -> None:
        sacct = told("COMPLETED", 1, record=1, run="atlas ??", submit=100, start=110, end=200)
        assert only(sacct).run == "atlas ??"
        assert only(sacct, began(111, run="atlas α")).run == "atlas α"

    def test_a_requeued_job_keeps_it(self) -> None:
        first = told("REQUEUED", 1, record=1, submit=100, start=110, end=200, run="atlas")
        assert only(first, told("PENDING", 2, record=2, submit=200)).run == "atlas"
        assert only(first).run == "atlas"
        assert only(DONE).run is None

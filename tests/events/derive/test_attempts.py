"""The fold of a job stream: each rule by a hand-made case."""

from __future__ import annotations

import pytest

from events.derive.attempts import Attempt, Sighting, fold
from tests.events.derive.sightings import (
    DAY,
    attempt,
    corrected,
    gpu_seconds,
    only,
    replace_data,
    spans,
    told,
)

RUN = {"submit": 100, "eligible": 105, "start": 110, "end": 200}
DONE = told("COMPLETED", record=1, gpus=8, gpu_types=("h100=8",), nodes=1, cpus=64, user="u1", **RUN)


class TestOneRecord:
    def test_a_final_report_is_one_attempt(self) -> None:
        job = only(DONE)
        one = job.attempts[0]
        assert (job.seq, job.state, job.submit, job.eligible, job.user) == (1, "COMPLETED", 100, 105, "u1")
        assert (one.number, one.record, one.start, one.end, one.state) == (1, 1, 110, 200, "COMPLETED")
        assert spans(one) == [(110, 200, 8)]
        assert one.segments[0].gpu_types == (("h100", 8),)
        assert (one.confirmed, one.disagree, one.corrected, one.sources) == (
            True,
            False,
            False,
            ("sacct:pod-a",),
        )
        assert (one.first_position, one.last_position, job.last_position) == (1, 1, 1)

    def test_no_start_is_a_job_without_attempt(self) -> None:
        job = only(told("CANCELLED", submit=100, eligible=100, end=150))
        assert (job.state, job.submit, job.attempts) == ("CANCELLED", 100, ())

    def test_an_expected_start_and_a_requested_size_are_not_believed(self) -> None:
        assert only(told("PENDING", submit=100, start=500, gpus=8)).attempts == ()
        assert only(told("PENDING", 1, "slurmctld:x", submit=100, start=500, end=600)).attempts == ()
        running = told("RUNNING", 2, record=3, submit=100, start=400)
        one = attempt(told("PENDING", record=3, submit=100, start=500, gpus=8), running)
        assert (one.start, one.segments[0].gpus) == (400, None)

    def test_an_expected_end_is_not_believed(self) -> None:
        assert attempt(told("RUNNING", source="slurmctld:x", start=110, end=9999)).end is None
        assert attempt(told("COMPLETING", source="slurmctld:x", start=110, end=200)).end == 200

    def test_pending_running_and_final_are_one_record(self) -> None:
        for record in (None, 5):
            sightings = [
                told("PENDING", 1, record=record, submit=100, limit_seconds=60),
                told("RUNNING", 2, record=record, submit=100, start=110, gpus=4),
                told("COMPLETED", 3, record=record, submit=100, start=110, end=130),
            ]
            job = only(*sightings)
            assert job.limit_seconds == 60
            assert spans(job.attempts[0]) == [(110, 130, 4)]
            assert (job.attempts[0].first_position, job.attempts[0].last_position) == (1, 3)

    def test_zero_length_counts_without_seconds(self) -> None:
        one = attempt(told("FAILED", submit=100, start=110, end=110, gpus=8, suspended_seconds=4))
        assert (spans(one), gpu_seconds(one), one.suspended_seconds) == ([(110, 110, 8)], 0, 0)

    def test_an_end_before_the_start_is_zero_length_and_disputed(self) -> None:
        one = attempt(told("COMPLETED", start=110, end=90))
        assert (one.end, one.disagree, spans(one)) == (110, True, [(110, 110, None)])

    def test_suspended_seconds_fit_into_the_attempt(self) -> None:
        assert attempt(told("COMPLETED", start=110, end=120, suspended_seconds=27)).suspended_seconds == 10
        assert attempt(told("RUNNING", start=110, suspended_seconds=27)).suspended_seconds == 27

    def test_a_submission_after_the_start_is_kept(self) -> None:
        one = attempt(told("COMPLETED", submit=150, start=110, end=200))
        assert (one.submit, one.start, one.eligible) == (150, 110, None)

    def test_a_final_report_without_an_end_ends_when_it_happened(self) -> None:
        assert attempt(told("FAILED", start=110, at=170)).end == 170

    def test_cancelled_before_the_start_by_jobcomp(self) -> None:
        post = told("CANCELLED", 2, "jobcomp:pod-a", submit=100, start=150, end=150)
        assert only(post).attempts == ()
        assert only(told("CANCELLED", record=1, submit=100, end=150), post).attempts == ()

    def test_typed_counts_alone_give_the_total(self) -> None:
        (part,) = attempt(told("COMPLETED", start=1, end=2, gpu_types=("h200=4", "h100=4", "odd"))).segments
        assert (part.gpus, part.gpu_types) == (8, (("h100", 4), ("h200", 4)))

    def test_unknown_states_go_by_their_times(self) -> None:
        assert attempt(told("UNKNOWN", start=110)).end is None
        assert only(told("UNKNOWN", submit=100)).attempts == ()
        one = attempt(
            told("UNKNOWN", 1, "hook:n", start=110, end=200),
            told("FAILED", 2, "jobcomp:x", start=110, at=200),
        )
        assert one.state == "FAILED"

    def test_nothing_gives_nothing(self) -> None:
        assert fold([]) == ()
        assert fold([corrected("end", "5")]) == ()


class TestWhoWins:
    def test_ended_beats_running_whatever_the_source(self) -> None:
        one = attempt(told("RUNNING", 1, record=1, start=110), told("COMPLETED", 2, "hook:n1", start=110, end=190))
        assert (one.state, one.end) == ("COMPLETED", 190)

    @pytest.mark.parametrize(("better", "worse"), [
        ("slurmdbd:pod-a", "jobcomp:pod-a"), ("philly", "jobcomp/x"), ("jobcomp:pod-a", "slurmctld:pod-a"),
        ("slurmctld/rest", "epilogslurmctld:pod-a"), ("epilogslurmctld", "hook:gpu001"),
    ])  # fmt: skip
    def test_source_rank(self, better: str, worse: str) -> None:
        first = told("COMPLETED", 1, better, submit=100, start=110, end=200)
        second = told("FAILED", 2, worse, submit=100, start=111, end=203, partition="train")
        for order in ([first, second], [second, first]):
            one = attempt(*order)
            assert (one.start, one.end, one.state, one.partition) == (110, 200, "COMPLETED", "train")

    def test_the_later_final_report_of_one_source_wins(self) -> None:
        early = told("COMPLETED", 4, record=1, start=110, end=200, at=500)
        late = told("FAILED", 9, record=1, start=110, end=190, at=190)
        assert attempt(late, early).state == "FAILED"

    def test_names_come_from_the_accounting_last(self) -> None:
        sacct = told("COMPLETED", 1, record=1, name="`q` ??", comment="c", **RUN)
        job = only(sacct, told("RUNNING", 2, "slurmctld:x", submit=100, start=110, name='"q" é'))
        assert (job.name, job.comment) == ('"q" é', "c")

    def test_types_of_another_size_are_not_taken(self) -> None:
        small = told("COMPLETED", 1, record=1, start=110, end=200, gpus=2)
        big = told("RUNNING", 2, record=1, start=110, gpus=4, gpu_types=("h100=4",))
        assert attempt(small, big).segments[0].gpu_types == ()

    @pytest.mark.parametrize(("end", "apart"), [(205, False), (206, True), (194, True)])
    def test_disagreement(self, end: int, apart: bool) -> None:
        other = told("COMPLETED", 2, "jobcomp:pod-a", submit=100, start=110, end=end)
        assert attempt(DONE, other).disagree is apart

    def test_one_source_correcting_itself_is_no_disagreement(self) -> None:
        assert not attempt(DONE, told("COMPLETED", 2, record=1, start=110, end=300)).disagree


class TestMatching:
    def test_starts_two_seconds_apart_are_one(self) -> None:
        assert attempt(DONE, told("COMPLETED", 2, "hook:n", start=112, end=201)).sources == (
            "hook:n",
            "sacct:pod-a",
        )

    def test_other_submissions_are_other_records(self) -> None:
        first = told("REQUEUED", 1, "jobcomp:x", submit=100, start=110, end=112)
        second = told("COMPLETED", 2, "jobcomp:x", submit=112, start=112, end=200)
        assert [one.start for one in only(first, second).attempts] == [110, 112]

    def test_what_does_not_match_stays_unconfirmed(self) -> None:
        ghost = told("COMPLETED", 2, "jobcomp:x", submit=50, start=60, end=70)
        assert [one.confirmed for one in (job.attempts[0] for job in fold([DONE, ghost]))] == [False, True]
        assert attempt(told("COMPLETED", submit=100, start=110, end=120)).confirmed

    def test_a_hook_inside_the_run_is_of_that_run(self) -> None:
        late = told("RUNNING", 2, "hook:n", start=120)
        early = told("FAILED", 3, "hook:m", start=100, end=180)
        assert len(attempt(DONE, late, early).sources) == 3

    def test_a_hook_before_the_run_is_its_own_until_the_submission(self) -> None:
        ghost, real = only(told("RUNNING", 2, "hook:n", start=90), DONE).attempts
        assert (ghost.end, ghost.confirmed, ghost.disagree) == (100, False, True)
        assert (real.start, real.confirmed, real.disagree) == (110, True, False)

    def test_an_epilog_without_a_start_goes_to_the_run_before_it(self) -> None:
        requeued = told("REQUEUED", 1, record=1, submit=100, start=110, end=200)
        again = told("RUNNING", 2, record=2, submit=200, start=220)
        first, second = only(requeued, again, told("UNKNOWN", 3, "hook:n", end=203)).attempts
        assert (first.end, first.sources, second.end) == (200, ("hook:n", "sacct:pod-a"), None)
        assert only(told("RUNNING", 4, "hook:n", at=500), DONE).attempts[0].last_position == 4

    def test_record_zero_is_no_record(self) -> None:
        assert attempt(told("RUNNING", 2, "slurmctld:x", record=0, submit=100, start=110), DONE).record == 1


class TestResize:
    """Oddity 2: both records start with the job; the second one's submission is the resize."""

    BEFORE = told("RESIZING", 1, record=15, submit=275, eligible=275, start=277, end=302, gpus=4, suspended_seconds=99)
    AFTER = told("COMPLETED", 2, record=92, submit=302, eligible=302, start=277, end=318, gpus=2, exit_code=3)

    def check(self, *sightings: Sighting) -> Attempt:
        one = attempt(*sightings)
        assert spans(one) == [(277, 302, 4), (302, 318, 2)]
        assert gpu_seconds(one) == 4 * 25 + 2 * 16 == 132
        return one

    def test_one_attempt_with_two_sizes(self) -> None:
        one = self.check(self.BEFORE, self.AFTER)
        assert (one.submit, one.eligible, one.state, one.exit_code, one.record) == (
            275,
            275,
            "COMPLETED",
            3,
            15,
        )
        assert one.suspended_seconds == 25

    def test_without_native_numbers(self) -> None:
        one = replace_data(self.BEFORE, record=None), replace_data(self.AFTER, record=None)
        self.check(*one)

    @pytest.mark.parametrize("starts", [(302, 302), (None, 277), (277, 277)])
    def test_with_the_posts_of_jobcomp(self, starts: tuple[int | None, int]) -> None:
        closed = told("RESIZING", 3, "jobcomp:x", submit=275, start=starts[0], end=302, gpus=4)
        final = told("COMPLETED", 4, "jobcomp:x", submit=275, start=starts[1], end=318, gpus=2)
        rest = told("COMPLETED", 5, "slurmctld:x", submit=275, start=277, end=318, gpus=2)
        one = self.check(self.BEFORE, self.AFTER, closed, final, rest)
        assert not one.disagree
        if 277 in starts:
            assert not self.check(closed, final).confirmed
        running = told("RUNNING", 2, record=92, submit=302, start=277, gpus=2)
        self.check(self.BEFORE, running, final)

    def test_several_and_still_running(self) -> None:
        second = told("RESIZING", 2, record=92, submit=302, start=277, end=310, gpus=2)
        third = told("RUNNING", 3, record=99, submit=310, start=277, gpus=1)
        assert spans(attempt(third, second, self.BEFORE)) == [(277, 302, 4), (302, 310, 2), (310, None, 1)]

    def test_the_close_is_not_known_yet(self) -> None:
        stale = told("RUNNING", 1, record=15, submit=275, start=277, gpus=4)
        assert not self.check(stale, self.AFTER).disagree


class TestAttemptsAndJobs:
    @pytest.mark.parametrize("state", ["REQUEUED", "PREEMPTED", "NODE_FAIL"])
    def test_a_requeue_is_the_next_attempt(self, state: str) -> None:
        first = told(state, 1, record=1, submit=100, start=110, end=200, account="a")
        second = told("COMPLETED", 2, record=2, submit=250, start=270, end=300)
        job = only(second, first)
        assert [(one.number, one.start, one.state) for one in job.attempts] == [
            (1, 110, state),
            (2, 270, "COMPLETED"),
        ]
        assert (job.submit, job.state, job.account) == (100, "COMPLETED", "a")

    def test_a_requeue_that_waits(self) -> None:
        first = told("NODE_FAIL", 1, record=1, submit=100, start=110, end=200, reason="None")
        job = only(first, told("PENDING", 2, record=2, submit=200, eligible=221, reason="BeginTime"))
        assert (job.state, job.reason, len(job.attempts), job.attempts[0].state) == (
            "PENDING",
            "BeginTime",
            1,
            "NODE_FAIL",
        )

    def test_jobcomp_calls_a_requeue_pending(self) -> None:
        first = told("PENDING", 1, "jobcomp:x", submit=100, start=110, end=200, gpus=1)
        job = only(first, told("COMPLETED", 2, "jobcomp:x", submit=201, start=222, end=230, gpus=1))
        assert [(one.state, gpu_seconds(one)) for one in job.attempts] == [("REQUEUED", 90), ("COMPLETED", 8)]

    @pytest.mark.parametrize(("submit", "jobs"), [(199, 1), (200, 1), (202, 1), (203, 2), (5000, 2)])
    def test_reuse_of_an_id_after_a_final_state(self, submit: int, jobs: int) -> None:
        again = told("RUNNING", 2, record=2, submit=submit, start=6000)
        for state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"):
            found = fold([told(state, 1, record=1, **RUN), again])
            assert [job.seq for job in found] == list(range(1, jobs + 1))
            assert found[-1].attempts[-1].number == (2 if jobs == 1 else 1)

    def test_reuse_after_thirty_days(self) -> None:
        first = told("REQUEUED", 1, record=1, **RUN)
        assert len(fold([first, told("PENDING", 2, record=2, submit=200 + 30 * DAY)])) == 1
        assert len(fold([first, told("PENDING", 2, record=2, submit=201 + 30 * DAY)])) == 2

    def test_a_long_run_may_be_requeued(self) -> None:
        first = told("NODE_FAIL", 1, record=1, submit=100, start=110, end=40 * DAY)
        assert len(fold([first, told("PENDING", 2, record=2, submit=40 * DAY)])) == 1

    def test_attempts_of_one_submission(self) -> None:
        """Traces such as Philly's give every attempt the first submission."""
        first = told("FAILED", 1, "philly", submit=100, start=110, end=200)
        second = told("COMPLETED", 2, "philly", submit=100, start=300, end=400)
        assert [one.start for one in only(second, first).attempts] == [110, 300]

    def test_a_run_left_open_ends_with_the_next_submission(self) -> None:
        lost = told("RUNNING", 1, record=1, submit=100, start=110)
        first, second = only(lost, told("COMPLETED", 2, record=2, submit=200, start=230, end=300)).attempts
        assert (first.end, first.disagree, second.disagree) == (200, True, False)

    def test_array_and_het_marks(self) -> None:
        job = only(told("PENDING", submit=1, array_job_id="6", array_task="13-30%2", het_job_id="5", het_offset=1))
        assert (job.array_job_id, job.array_task, job.het_job_id, job.het_offset) == ("6", "13-30%2", "5", 1)


class TestCorrections:
    def test_times_move_the_segments(self) -> None:
        one = attempt(DONE, corrected("start", "120", start=112), corrected("end", "180", position=91))
        assert (one.start, one.end, spans(one), one.corrected) == (120, 180, [(120, 180, 8)], True)
        assert (one.last_position, one.sources) == (91, ("sacct:pod-a",))
        assert only(DONE, corrected("end", "180")).last_position == 90

    def test_taking_an_end_away(self) -> None:
        assert spans(attempt(DONE, corrected("end", ""))) == [(110, None, 8)]

    def test_moves_across_a_resize(self) -> None:
        parts = [TestResize.BEFORE, TestResize.AFTER]
        assert spans(attempt(*parts, corrected("start", "310", 277))) == [(310, 318, 2)]
        assert spans(attempt(*parts, corrected("end", "300", 277))) == [(277, 300, 4)]
        assert spans(attempt(*parts, corrected("end", "277", 277))) == [(277, 277, 4)]
        assert spans(attempt(*parts, corrected("gpus", "3", 277))) == [(277, 302, 3), (302, 318, 3)]

    def test_sizes(self) -> None:
        (part,) = attempt(DONE, corrected("gpus", "6"), corrected("nodes", "2"), corrected("cpus", "")).segments
        assert (part.gpus, part.gpu_types, part.nodes, part.cpus) == (6, (("h100", 6),), 2, None)
        mixed = told("COMPLETED", start=110, end=200, gpus=4, gpu_types=("h100=2", "h200=2"))
        assert attempt(mixed, corrected("gpus", "6")).segments[0].gpu_types == ()

    def test_who_and_where(self) -> None:
        one = attempt(
            DONE,
            corrected("account", "vision"),
            corrected("partition", ""),
            corrected("suspended_seconds", "500"),
        )
        assert (one.account, one.partition, one.suspended_seconds) == ("vision", None, 90)

    def test_the_later_position_wins(self) -> None:
        said = [corrected("end", "150", position=92), corrected("end", "180", position=91)]
        assert attempt(DONE, *said).end == attempt(*reversed(said), DONE).end == 150

    @pytest.mark.parametrize(
        ("field", "new"),
        [
            ("end", "soon"),
            ("end", "109"),
            ("start", "201"),
            ("start", ""),
            ("gpus", "-1"),
            ("gpus", "9" * 17),
            ("nodes", "²"),
        ],
    )
    def test_a_bad_value_changes_nothing(self, field: str, new: str) -> None:
        assert fold([DONE, corrected(field, new)]) == fold([DONE])

    def test_of_two_times_the_possible_one_is_kept(self) -> None:
        assert attempt(DONE, corrected("start", "150"), corrected("end", "140", position=91)).end == 140
        assert attempt(DONE, corrected("start", "300"), corrected("end", "400", position=91)).start == 300

    def test_it_names_one_attempt(self) -> None:
        first = told("REQUEUED", 1, record=1, submit=100, start=110, end=111)
        second = told("COMPLETED", 2, record=2, submit=111, start=112, end=200)
        changed = only(first, second, corrected("account", "x", 112)).attempts
        assert [one.corrected for one in changed] == [False, True]
        assert not any(one.corrected for one in only(first, second, corrected("account", "x", 150)).attempts)

"""Receipts at the end of jobs: to whom, when, once, and what they say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail as django_mail
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from events import projector
from events.adapters import Draft
from events.append import append
from events.intake import Intake
from events.rebuild import rebuild
from events.types.jobs import JobReported
from jobs.models import Job
from tests.hand import corrected, say
from tests.jobs.test_training import FAULT
from tests.web.books import book, declare, job, person
from web import mailjob, mailkinds, mailout, tasks
from web.mailkinds import RECEIPT
from web.models import MailSent

pytestmark = pytest.mark.usefixtures("hall")

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
HOUR = 3600
ASKED = datetime(2026, 11, 26, 0, 0, tzinfo=UTC)
"""When the person asked for receipts."""


@pytest.fixture
def ada(hall: Any) -> Any:
    """A user who asked for receipts; its jobs run in nlp, which it may see."""
    declare("nlp", "vision", rates={"h100": 2_000_000})
    return asks("ada", "nlp")


def asks(name: str, *projects: str, since: datetime = ASKED) -> Any:
    user = person(name, projects=projects)
    user.email = f"{name}@example.org"
    user.save()
    mailkinds.choose(user, RECEIPT, since, wanted=True)
    return user


def tell(job_id: str, hours_ago: float, hours: float = 2, *, source: str = "sacct:pod-a", **more: Any) -> None:
    """A job of ada with 4 GPUs in nlp that ended so long before NOW; it had waited 90 s."""
    end = int(NOW.timestamp() - hours_ago * HOUR)
    start = end - int(hours * HOUR)
    given: dict[str, Any] = {
        "cluster": "pod-a", "job_id": job_id, "state": "COMPLETED", "submit": start - 90, "eligible": start - 90,
        "start": start, "end": end, "account": "nlp", "user": "ada", "partition": "train", "nodes": 1, "cpus": 32,
        "gpus": 4, "gpu_types": ("h100=4",),
    } | more  # fmt: skip
    key = f"{job_id}/{given['start']}/{given['end']}/{given['state']}"
    draft = Draft("job.reported", JobReported(**given), key, (given["end"] or start) * 1_000_000, 1)
    assert {one.status for one in Intake(source=source, actor="test").take([draft])} <= {"accepted"}
    projector.catch_up()


def plain(text: str) -> str:
    return text.replace("\u202f", "")


def subjects() -> list[str]:
    return [plain(mail.subject) for mail in django_mail.outbox]


# --- what it says --------------------------------------------------------------------------------------------------


def test_it_says_what_the_job_did(ada: Any) -> None:
    tell("412", 0.5, 2, name="resnet", exit_code=0)
    tasks.turn(NOW)
    [mail] = django_mail.outbox
    assert (mail.to, plain(mail.subject)) == (
        ["ada@example.org"], "Hall 1: Job 412 (resnet) completed: 8.0 GPU-h",
    )  # fmt: skip
    text = plain(mail.body)
    assert "The program ended by itself with exit code 0." in text
    assert "Wait before start: 1 min" in text  # 90 s
    assert "Wall time: 2 h 00 min (in one attempt)" in text
    assert "GPU-hours: 8.0 (4 GPUs at most)" in text
    assert "Cost: 16.00 EUR (at list price)" in text  # 8 GPU-h at 2 EUR
    assert "what was rolled back is not known" in text
    assert f"/jobs/{Job.objects.get().pk}/" in text
    assert "Switch this mail off: http" in text


def test_a_failed_job_says_why_and_what_was_in_vain(ada: Any) -> None:
    tell("413", 0.5, 3, state="FAILED", exit_code=137)
    tasks.turn(NOW)
    text = plain(django_mail.outbox[0].body)
    assert subjects() == ["Hall 1: Job 413 failed: 12.0 GPU-h"]
    assert "The program ended with an error." in text
    assert "SIGKILL" in text
    assert "- Failed: 12.0 GPU-h" in text  # 3 h x 4, nothing told what it kept


def test_without_a_right_to_the_project_neither_cost_nor_links(ada: Any) -> None:
    asks("eve")
    tell("414", 0.5, 2, user="eve")
    tasks.turn(NOW)
    [mail] = django_mail.outbox
    assert mail.to == ["eve@example.org"]
    assert "GPU-hours: 8.0" in plain(mail.body)
    for word in ("Cost", "EUR", "/jobs/", "/projects/"):
        assert word not in mail.body, word


def test_hostile_names(ada: Any) -> None:
    tell("415", 0.5, name="x\r\nBcc: all@example.org\r\n\r\n<script>alert(1)</script>")
    tasks.turn(NOW)
    [mail] = django_mail.outbox
    raw = mail.message()
    assert "Bcc" not in raw
    assert "x Bcc: all@example.org <script>" in mail.subject
    assert "<script" not in str(mail.alternatives[0][0])
    assert "\nBcc:" not in mail.body


# --- once ----------------------------------------------------------------------------------------------------------


def test_once_per_end_whatever_comes_later(ada: Any) -> None:
    tell("416", 0.5)
    for _ in range(3):
        tasks.turn(NOW)
    job = Job.objects.get()
    say(corrected("416", int(job.start.timestamp()), "end", str(int(job.end.timestamp()) + 60)))  # type: ignore[union-attr]
    projector.catch_up()
    tell("416", 0.45, 2.05, source="slurmdbd:pod-a")  # another source tells another end
    tasks.turn(NOW + timedelta(hours=1))
    rebuild(projector.groups())
    tasks.turn(NOW + timedelta(hours=2))
    assert len(django_mail.outbox) == 1


def test_a_job_that_is_started_again_after_its_receipt_gets_another_at_its_next_end(ada: Any) -> None:
    tell("417", 3, 1, state="NODE_FAIL")
    tasks.turn(NOW)
    assert subjects() == ["Hall 1: Job 417 node failed: 4.0 GPU-h"]
    first = int(NOW.timestamp()) - 3 * HOUR
    tell("417", 0, 1, submit=first, eligible=first)
    tasks.turn(NOW + timedelta(minutes=5))
    tasks.turn(NOW + timedelta(minutes=6))
    assert subjects()[1:] == ["Hall 1: Job 417 completed: 8.0 GPU-h"]  # both attempts
    assert Job.objects.count() == 1


def test_two_at_once_note_it_once(ada: Any) -> None:
    tell("418", 0.5)

    def once() -> int:
        try:
            return mailjob.find(NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # one has noted it and not yet committed, when the other one comes
            assert mailjob.find(NOW) == 1
            other = pool.submit(once)
            with pytest.raises(TimeoutError):
                other.result(timeout=0.5)
        assert other.result(timeout=10) == 0
    assert MailSent.objects.count() == 1


# --- which jobs ----------------------------------------------------------------------------------------------------


def test_history_sends_nothing(ada: Any) -> None:
    tell("420", 24.01)  # ended longer ago than a day
    tell("421", 13)  # before she asked, at midnight
    tell("422", 11.9)  # after it
    tasks.turn(NOW)
    assert subjects() == ["Hall 1: Job 422 completed: 8.0 GPU-h"]


def test_asking_again_begins_anew(ada: Any) -> None:
    tell("423", 1)
    mailkinds.choose(ada, RECEIPT, NOW - timedelta(minutes=50), wanted=False)
    mailkinds.choose(ada, RECEIPT, NOW - timedelta(minutes=40), wanted=True)
    tasks.turn(NOW)
    assert django_mail.outbox == []
    assert mailkinds.choose(ada, RECEIPT, NOW, wanted=True) is False
    tell("424", 0.5)
    tasks.turn(NOW)
    assert len(django_mail.outbox) == 1


@pytest.mark.parametrize(
    ("ago", "more", "number"),
    [
        (0.01, {}, 0),  # 36 s: a job that is requeued looks over for a moment
        (0.05, {}, 1),
        (0.5, {"source": "hook:pod-a"}, 0),  # only scripts on the nodes: the scheduler's word is to come
        (1.1, {"source": "hook:pod-a"}, 1),
        (0.5, {"end": None, "state": "RUNNING"}, 0),
        (0.5, {"state": "REQUEUED"}, 0),
        (0.5, {"user": "somebody"}, 0),
        (0.5, {"user": "ADA"}, 0),  # a scheduler's names are exact
    ],
)
def test_which_jobs_are_over(ada: Any, ago: float, more: dict[str, Any], number: int) -> None:
    tell("425", ago, **more)
    tasks.turn(NOW)
    assert len(django_mail.outbox) == number


def test_nobody_who_did_not_ask_or_has_no_address(ada: Any) -> None:
    user = asks("ben", "nlp")
    user.email = ""
    user.save()
    person("eve", projects=("nlp",))
    for number, name in enumerate(("ben", "eve")):
        tell(f"43{number}", 0.5, user=name)
    tasks.turn(NOW)
    assert (django_mail.outbox, MailSent.objects.count()) == ([], 0)


def test_switched_off_between_noting_and_sending(ada: Any) -> None:
    tell("440", 0.5)
    mailjob.find(NOW)
    mailkinds.choose(ada, RECEIPT, NOW, wanted=False)
    mailout.deliver(NOW)
    assert django_mail.outbox == []
    assert MailSent.objects.get().state == "dropped"


def test_by_hand(ada: Any, capsys: Any) -> None:
    tell("441", 0.5)
    mailjob.find(NOW)
    MailSent.objects.update(created_at=datetime.now(UTC), next_try=datetime.now(UTC))
    call_command("mail", "receipts")
    assert "1 sent" in capsys.readouterr().out


def test_what_was_rolled_back_as_the_program_told(hall: Any) -> None:
    """The attempt of tests/jobs/test_training.py: 16 GPUs for an hour, 19.5 min rolled back, 10 min to stop."""
    declare("nlp")
    asks("u1", "nlp", since=datetime(2026, 3, 1, tzinfo=UTC))
    book(job("nlp", "2026-03-01 11:00", 1, 16, job_id="1", wait=300, run="big", state="NODE_FAIL", nodes=2))
    append(list(FAULT))
    projector.catch_up()
    tasks.turn(datetime(2026, 3, 1, 11, 30, tzinfo=UTC))
    text = plain(django_mail.outbox[0].body)
    assert subjects() == ["Hall 1: Job 1 node failed: 16.0 GPU-h"]
    assert "- Rolled back: 5.2 GPU-h" in text  # 18 720 GPU-s
    assert "- Restart after a fault: 2.7 GPU-h" in text  # 6 720 + 2 880 GPU-s
    assert "- Partial gang: 0.3 GPU-h" in text  # 960 GPU-s
    assert "run big" in text
    assert "not known" not in text


def test_a_tick_costs_the_same_for_many_people(ada: Any) -> None:
    for number in range(20):
        asks(f"p{number}")
    with CaptureQueriesContext(connection) as asked:
        assert mailjob.find(NOW) == 0
    assert len(asked) <= 7  # those who asked, begin, lock, their ids, what ended, what was told, end

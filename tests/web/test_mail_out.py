"""The outbox against a real mail server on loopback: once at most, whoever dies; tried again for a day."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.smtp import Server, serving
from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of
from web import mailout
from web.mailkinds import WEEKLY
from web.models import MailSent

pytestmark = pytest.mark.usefixtures("hall")

ROOT = Path(__file__).parent.parent.parent
NOW = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
WEEK = "2026-W48"


@pytest.fixture
def server(settings: Any) -> Iterator[Server]:
    """A mail server, set as EMAIL_URL would set it."""
    with serving() as told:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", told.port, 5
        yield told


@pytest.fixture
def due(hall: Any) -> MailSent:
    """One weekly mail that is due."""
    declare("nlp")
    book(job("nlp", "2026-11-24 08:00", 10, 8))
    user = person("lea", projects=("nlp",))
    user.email = "lea@example.org"
    user.save()
    mailout.note(user, WEEKLY, WEEK, NOW)
    return MailSent.objects.get()


def now_of(row: MailSent) -> MailSent:
    row.refresh_from_db()
    return row


def test_a_mail_goes_through_a_real_server(server: Server, due: MailSent) -> None:
    assert dict(mailout.deliver(NOW) or {}) == {"sent": 1}
    [raw] = server.mails
    found = message_from_bytes(raw, policy=default)
    assert found["To"] == "lea@example.org"
    assert found["Subject"].replace("\u202f", "").startswith("Hall 1: Week 48 of 2026: 80.0 GPU-h used")
    assert "80.0 GPU-h" in found.get_body(("plain",)).get_content()
    assert "80.0" in found.get_body(("html",)).get_content()
    assert (now_of(due).state, due.done_at) == ("sent", NOW)


def test_two_workers_at_once_send_one_mail(server: Server, due: MailSent) -> None:
    server.took = lambda _: time.sleep(0.2)  # the others come while it is being taken

    def once(_: int) -> Any:
        try:
            return mailout.deliver(NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(once, range(8)))
    assert len(server.mails) == 1
    assert sum((found or {}).get("sent", 0) for found in done) == 1
    assert now_of(due).state == "sent"


def test_another_worker_leaves_alone_what_is_being_sent(server: Server, due: MailSent) -> None:
    seen: list[Any] = []

    def look(_: bytes) -> None:
        seen.append((mailout.deliver(NOW), MailSent.objects.get().state))
        connection.close()

    server.took = look  # while the server takes the mail, another worker comes
    assert dict(mailout.deliver(NOW) or {}) == {"sent": 1}
    assert seen == [(None, "sending")]


def test_a_worker_killed_while_the_server_takes_it_leaves_it_in_doubt_and_never_sends_it_again(
    server: Server, due: MailSent, hall: dict[str, str]
) -> None:
    child: list[subprocess.Popen[bytes]] = []
    server.took = lambda _: os.kill(child[0].pid, signal.SIGKILL)  # the mail is taken, and nobody is left to hear it
    code = (
        "import django; django.setup()\n"
        "from django.conf import settings\n"
        "settings.EMAIL_BACKEND = 'django.core.mail.backends.smtp.EmailBackend'\n"
        f"settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = '127.0.0.1', {server.port}, 5\n"
        "from datetime import datetime\n"
        "from web import mailout\n"
        f"mailout.deliver(datetime.fromisoformat('{NOW.isoformat()}'))\n"
    )
    environment = {**hall, "DJANGO_SETTINGS_MODULE": "config.settings"}
    child.append(subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment))
    assert child[0].wait(60) == -signal.SIGKILL
    server.took = None
    assert (len(server.mails), now_of(due).state) == (1, "sending")
    for _ in range(100):  # the database notices a moment later that the session is gone
        if mailout.deliver(NOW) is not None:
            break
        time.sleep(0.05)
    assert now_of(due).state == "in_doubt"
    mailout.deliver(NOW + timedelta(hours=1))
    assert len(server.mails) == 1
    call_command("mail", "again", str(due.pk)[:8])
    assert (len(server.mails), now_of(due).state) == (2, "sent")
    first, second = (message_from_bytes(raw)["Message-ID"] for raw in server.mails)
    assert first == second  # so that mail readers can tell that it is the same


@pytest.mark.parametrize(
    ("answers", "state", "word"),
    [
        ({"MAIL": "451 try later"}, "due", "451 try later"),
        ({"RCPT": "450 grey"}, "due", "450 grey"),
        ({"RCPT": "550 no such user"}, "failed", "550 no such user"),
        ({"DATA": "451 busy"}, "due", "451 busy"),
        ({"END": "452 full"}, "due", "452 full"),
        ({"END": "drop"}, "in_doubt", "fell silent"),
        ({"END": "keep and drop"}, "in_doubt", "fell silent"),
    ],
)
def test_what_becomes_of_a_refusal(
    server: Server, due: MailSent, answers: dict[str, str], state: str, word: str
) -> None:
    server.answers = answers
    mailout.deliver(NOW)
    assert now_of(due).state == state
    assert word in due.error
    server.answers = {}
    mailout.deliver(NOW + timedelta(minutes=2))
    assert len(server.mails) == {"due": 1, "failed": 0}.get(state, int("keep" in answers.get("END", "")))


def test_it_is_tried_ever_more_rarely_and_for_a_day_only(server: Server, due: MailSent) -> None:
    server.answers = {"MAIL": "451 try later"}
    at, tries = NOW, []
    while now_of(due).state == "due":
        at = max(at, due.next_try)
        before = server.connections
        mailout.deliver(at - timedelta(seconds=1))
        assert server.connections == before  # not before its time
        mailout.deliver(at)
        tries.append(round((at - NOW).total_seconds() / 60))
    # After 1, 2, 4, 8, 16 and 32 minutes more, then every hour, until a day is over.
    assert tries[:9] == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert (tries[-1], len(tries)) == (1383, 29)
    assert (due.state, due.tries) == ("failed", 29)
    assert "451 try later" in due.error
    mailout.deliver(NOW + timedelta(days=2))
    assert server.connections == 29


def test_a_server_that_is_away_is_asked_once_a_turn(due: MailSent, settings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.EMAIL_PORT = free.getsockname()[1]
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1"
    mailout.note(due.user, WEEKLY, f"{WEEK}/2", NOW)
    assert dict(mailout.deliver(NOW) or {}) == {"due": 2}
    assert {row.error.partition(":")[0] for row in MailSent.objects.all()} == {"the mail server cannot be reached"}


def test_an_admin_sees_what_did_not_arrive_and_a_lead_only_its_own(server: Server, due: MailSent) -> None:
    server.answers = {"RCPT": "550 no such user"}
    mailout.deliver(datetime.now(UTC))
    admin = signed_in(person("ada", admin=True))
    home = main_of(html_of(admin, "/"))
    assert "1 mail did not arrive: the address was refused: 550 no such user" in home
    page = main_of(html_of(admin, "/mail/"))
    assert "Mails that did not arrive" in page
    assert str(due.pk)[:8] in page
    other = main_of(html_of(signed_in(person("ben", projects=("nlp",))), "/mail/"))
    assert "550" not in other


def test_by_hand_a_failure_is_exit_1_with_the_servers_words(server: Server, due: MailSent, capsys: Any) -> None:
    server.answers = {"RCPT": "550 no such user"}
    with pytest.raises(CommandError, match="550 no such user") as failed:
        call_command("mail", "test", "nobody@example.org")
    assert failed.value.returncode == 1
    with pytest.raises(CommandError, match="not every mail was taken"):
        call_command("mail", "send")
    call_command("mail", "list")
    assert "550 no such user" in capsys.readouterr().out
    server.answers = {}
    call_command("mail", "test", "ops@example.org")
    assert len(server.mails) == 1


def test_a_figure_that_cannot_be_made_does_not_stop_the_others(
    server: Server, due: MailSent, monkeypatch: pytest.MonkeyPatch
) -> None:
    from web import mailmake

    mailout.note(due.user, WEEKLY, "2026-W47", NOW + timedelta(seconds=1))
    made = mailmake.of_row

    def broken(row: MailSent, now: datetime) -> Any:
        if row.ref == WEEK:
            raise ZeroDivisionError("a rule is wrong")
        return made(row, now)

    monkeypatch.setattr(mailmake, "of_row", broken)
    mailout.deliver(NOW + timedelta(seconds=2))
    assert {row.ref: row.state for row in MailSent.objects.all()} == {WEEK: "due", "2026-W47": "sent"}
    assert "ZeroDivisionError: a rule is wrong" in now_of(due).error


def test_what_is_long_over_is_forgotten(due: MailSent) -> None:
    MailSent.objects.update(state="sent")
    assert mailout.tidy(NOW + timedelta(days=89)) == 0
    assert mailout.tidy(NOW + timedelta(days=91)) == 1

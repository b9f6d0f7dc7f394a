"""The weekly mail: the figures of the pages, to whom, when, in which form, and how it is switched off."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core import mail as django_mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import projector
from events.append import append
from events.reports import AsOf, Report
from events.types.accounts import AssociationReported
from events.types.projects import ProjectDeclared
from events.types.shares import FairshareConfigured
from fleet.queries import site
from jobs.models import Grant
from tests.hand import say
from tests.jobs.test_training import FAULT
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words
from web import mail, mailkinds, mailmake, mailoff, mailout, mailparts, mailplan, mailtext, mailweek, tasks
from web.mailkinds import RECEIPT, WEEKLY
from web.models import MailSent
from web.ranges import Days

pytestmark = pytest.mark.usefixtures("hall")

WEEK = "2026-W48"
MONDAY = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
"""Monday, 30 November 2026, 07:00 in Berlin."""


@pytest.fixture
def books(hall: Any) -> None:
    """Two projects in week 48 (23 to 29 November) and one of them in week 47.

    nlp: 8 GPUs x 10 h (waited 60 s) and 4 x 5 h, failed (waited 600 s) in week 48: 100 GPU-h; 8 x 10 h in week 47: 80.
    vision: 2 x 3 h in week 48: 6 GPU-h.
    """
    declare("nlp", "vision", rates={"h100": 2_000_000})
    book(
        job("nlp", "2026-11-17 08:00", 10, 8),
        job("nlp", "2026-11-24 08:00", 10, 8, wait=60),
        job("nlp", "2026-11-25 08:00", 5, 4, wait=600, state="FAILED", name="bad\r\nBcc: all@example.org <b>x</b>"),
        job("vision", "2026-11-26 08:00", 3, 2, user="u2"),
    )


def lead(name: str = "lea", *projects: str, address: str = "lea@example.org", **more: Any) -> Any:
    """Somebody with grants and an address, who came long before the week."""
    user = person(name, projects=projects or ("nlp",), **more)
    user.email, user.date_joined = address, datetime(2026, 1, 1, tzinfo=UTC)
    user.save()
    return user


def sent() -> Any:
    """The one mail that was sent."""
    assert len(django_mail.outbox) == 1
    return django_mail.outbox[0]


def weekly_of(user: Any, week: str = WEEK) -> Any:
    return mailweek.read(user, mailweek.days_of(week), datetime.now(UTC))


def plain(text: str) -> str:
    return text.replace("\u202f", "")


# --- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("books")
def test_the_subject_says_the_week_and_the_figure() -> None:
    tasks.turn(lead() and MONDAY)
    # 100 GPU-h after 80: a quarter more.
    assert plain(sent().subject) == "Hall 1: Week 48 of 2026: 100.0 GPU-h used, 25.0 % more than in week 47"


@pytest.mark.usefixtures("books")
def test_figures_of_the_text_are_those_worked_out_by_hand() -> None:
    lead()
    tasks.turn(MONDAY)
    text = plain(sent().body)
    assert "100.0 GPU-h, 25.0 % more than in week 47 (80.0)" in text
    assert "Runs: 2 (2 jobs started)" in text
    assert "Wait, median: 1 min (of 2 starts)" in text  # of 60 and 600 s the lower is the observed median
    assert "Wait, 95 of 100 are shorter: 10 min (p95)" in text
    assert "Held in vain: 20.0 GPU-h (20.00 % of what ended attempts held)" in text  # the failed one: 4 x 5 h
    assert "- Failed: 20.0 (100.00 %)" in text
    assert "Cost: 200.00 EUR (at list price)" in text  # 100 GPU-h at 2 EUR
    assert "Goodput: no data (no program told where its time went)" in text
    assert "- Unknown: 0.2 (100.00 %)" in text  # 660 s of waiting, nobody told why
    assert "Goodput: 100.0 GPU-h of ended attempts are not instrumented." in text
    assert "Fair share: no shares are known" in text
    assert "vision" not in text


@pytest.mark.usefixtures("books")
def test_they_are_the_figures_of_the_page() -> None:
    user = lead()
    found = weekly_of(user)
    page = main_of(html_of(signed_in(user), "/projects/nlp/?from=2026-11-23&to=2026-11-29"))
    mail = words(mailmake.html_of(WEEKLY, found, user))
    for figure in ("100.0", "25.0 %", "200", "1 min", "20.0"):
        assert figure in page, figure
        assert figure in mail, figure
    [section] = found.sections
    parts = {part.name: plain(part.value) for part in section.parts}
    (gpu_hours,) = re.findall(r"GPU-hours used ([\d.]+)", page)
    (runs,) = re.findall(r"(\d+) runs", page)[:1]
    (wait,) = re.findall(r"Wait, median (\d+ min)", page)[:1]
    assert (plain(section.used), parts["Runs"], parts["Wait, median"]) == (gpu_hours, runs, wait)


@pytest.mark.usefixtures("books")
def test_two_projects_add_up_and_one_below_another_does_not() -> None:
    both = weekly_of(lead("ben", "nlp", "vision", address="ben@example.org"))
    assert (plain(both.total), both.adds_up) == ("106.0", True)
    assert [(one.code, plain(one.used), plain(one.before)) for one in both.sections] == [
        ("nlp", "100.0", "80.0"), ("vision", "6.0", "0.0"),
    ]  # fmt: skip
    assert both.sections[1].change == "nothing in week 47 to compare with"


@pytest.mark.usefixtures("books")
def test_a_project_and_the_team_above_it_are_counted_once() -> None:
    say(ProjectDeclared(project="team", kind="team"), ProjectDeclared(project="nlp", parent="team"), key="t")
    projector.catch_up()
    found = weekly_of(lead("ben", "nlp", "team", address="ben@example.org"))
    assert ([plain(one.used) for one in found.sections], plain(found.total), found.adds_up) == (
        ["100.0", "100.0"], "100.0", False,
    )  # fmt: skip


@pytest.mark.usefixtures("books")
def test_a_week_without_use_says_so_and_days_without_data_are_no_zero() -> None:
    found = weekly_of(lead(), "2026-W40")
    assert (found.value, found.change) == ("0.0", "as in week 39")
    assert any(text.startswith("No data of Mon 28 Sep, Tue 29 Sep") for text in found.sections[0].unknown)


@pytest.mark.usefixtures("books")
def test_a_person_who_sees_all_is_told_of_its_granted_projects_only() -> None:
    user = lead("boss", "vision", address="boss@example.org", admin=True)
    found = weekly_of(user)
    assert (plain(found.total), [one.code for one in found.sections]) == ("6.0", ["vision"])


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("2026-W48", date(2026, 11, 23), date(2026, 11, 29)), ("2026-W53", date(2026, 12, 28), date(2027, 1, 3)),
     ("2027-W01", date(2027, 1, 4), date(2027, 1, 10))],
)  # fmt: skip
def test_iso_weeks(name: str, first: date, last: date) -> None:
    assert mailweek.days_of(name) == Days(first, last)
    assert mailweek.week_name(Days(first, last)) == name


@pytest.mark.parametrize("name", ["2026-48", "2025-W53", "2026-W00", "26-W4", "", "2026-W4x", "２０２６-W48"])
def test_what_is_no_week_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        mailweek.days_of(name)


# --- to whom and when ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "number"),
    [("2026-11-30 05:59:59", 0), ("2026-11-30 06:00:00", 1), ("2026-12-01 05:59:59", 1), ("2026-12-01 06:00:00", 0),
     ("2026-11-29 06:00:00", 0)],
)  # fmt: skip
@pytest.mark.usefixtures("books")
def test_it_is_due_on_monday_at_seven_by_the_sites_clock(now: str, number: int) -> None:
    lead()
    assert mailplan.note_weekly(datetime.fromisoformat(now).replace(tzinfo=UTC)) == number


def test_the_hour_is_the_sites_also_in_summer(settings: Any) -> None:
    declare("nlp")
    settings.WEEKLY_MAIL_AT = datetime(2026, 1, 1, 6, 30).time()  # noqa: DTZ001
    lead()
    assert mailplan.note_weekly(datetime(2026, 7, 6, 4, 29, tzinfo=UTC)) == 0
    assert mailplan.note_weekly(datetime(2026, 7, 6, 4, 30, tzinfo=UTC)) == 1  # 06:30 CEST
    assert MailSent.objects.get().ref == "2026-W27"


@pytest.mark.usefixtures("books")
def test_each_person_gets_a_week_once() -> None:
    lead()
    for _ in range(3):
        tasks.turn(MONDAY)
    assert len(django_mail.outbox) == 1
    assert [(row.state, row.ref) for row in MailSent.objects.all()] == [("sent", WEEK)]


@pytest.mark.usefixtures("books")
def test_who_gets_none() -> None:
    lead("no-address", address="")
    lead("closed", address="c@example.org")
    type(lead("new", address="n@example.org")).objects.filter(username="new").update(date_joined=MONDAY.replace(hour=7))
    no_grant = person("no-grant")
    no_grant.email = "g@example.org"
    no_grant.save()
    type(no_grant).objects.filter(username="closed").update(is_active=False)
    off = lead("off", address="o@example.org")
    mailkinds.choose(off, WEEKLY, datetime(2026, 11, 1, tzinfo=UTC), wanted=False)
    tasks.turn(MONDAY.replace(hour=8))
    assert django_mail.outbox == []


@pytest.mark.usefixtures("books")
def test_a_grant_that_was_withdrawn_between_noting_and_sending_sends_nothing() -> None:
    user = lead()
    mailplan.note_weekly(MONDAY)
    Grant.objects.filter(user_id=user.pk).delete()
    assert dict(mailout.deliver(MONDAY) or {}) == {"dropped": 1}
    assert django_mail.outbox == []
    assert "no project is granted" in MailSent.objects.get().error


@pytest.mark.usefixtures("books")
def test_of_two_grants_one_withdrawn_only_the_other_is_told_of() -> None:
    user = lead("ben", "nlp", "vision", address="ben@example.org")
    mailplan.note_weekly(MONDAY)
    Grant.objects.filter(user_id=user.pk, project="nlp").delete()
    mailout.deliver(MONDAY)
    assert "vision" in sent().body
    assert "nlp" not in sent().body + str(sent().alternatives[0][0])


@pytest.mark.parametrize("address", ["not an address", "a@example.org\nBcc: b@example.org", "a@example.org, b@c.de"])
@pytest.mark.usefixtures("books")
def test_an_address_that_is_none_is_never_written_into_a_header(address: str) -> None:
    lead(address=address)
    tasks.turn(MONDAY)
    assert django_mail.outbox == []
    assert MailSent.objects.get().state == "dropped"


# --- form ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("books")
def test_headers() -> None:
    lead()
    tasks.turn(MONDAY)
    found = message_from_bytes(sent().message().as_bytes(), policy=default)
    assert found["To"] == "lea@example.org"
    assert found["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert re.fullmatch(r"<http://[^>\s]+/mail/off/[^>\s]+/>", found["List-Unsubscribe"].strip())
    assert found["Auto-Submitted"] == "auto-generated"
    assert found["Message-ID"].startswith(f"<{MailSent.objects.get().pk}@")
    assert [part.get_content_type() for part in found.walk()] == ["multipart/alternative", "text/plain", "text/html"]


@pytest.mark.usefixtures("books")
def test_nothing_is_fetched_or_run_and_every_link_is_whole(settings: Any) -> None:
    settings.SITE_URL = "https://hall.example.org"
    lead()
    tasks.turn(MONDAY)
    html = str(sent().alternatives[0][0])
    assert not re.search(r"<(img|script|iframe|link|form|object|video|audio)\b|url\(|@import|\bon\w+=|src=", html)
    links = re.findall(r'href="([^"]*)"', html)
    assert len(links) > 8
    assert [link for link in links if not link.startswith("https://hall.example.org/")] == []
    assert "var(--" not in html


@pytest.mark.usefixtures("books")
def test_hostile_names_stay_text() -> None:
    lead()
    book(job("nlp", "2026-11-26 08:00", 6, 8, state="FAILED", user="u3", run="<i>r & \u202ex"))
    tasks.turn(MONDAY)
    html, text = str(sent().alternatives[0][0]), sent().body
    assert "&lt;i&gt;r &amp; x" in html
    assert "<i>" not in html
    assert "- <i>r & x: 48.0 (u3: failed)" in text
    assert "\u202e" not in html + text


def test_a_name_with_lines_stays_in_its_line() -> None:
    row = {"cause": "failed", "run": "r\r\n\r\nFrom: x", "run_id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
           "user": "u\r\nBcc: y", "gpu_seconds": 3600}  # fmt: skip
    params = Days(date(2026, 11, 23), date(2026, 11, 29)).params(ZoneInfo("UTC"), MONDAY)
    [part] = mailparts.wasting(Report("waste", params, (), [row], {}, AsOf(1, MONDAY)))
    assert (part.name, part.value, part.note) == ("r From: x", "1.0", "u Bcc: y: failed")


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a\r\nBcc: b", "a Bcc: b"), ("a\u2028b\u2029c\x85d", "a b c d"), ("\u202egnp.exe\u202c", "gnp.exe"),
     ("  x \t y\x00 ", "x y"), ("zero\u200bwidth", "zerowidth"), ("1\u202f234", "1\u202f234"), ("é日本", "é日本"),
     ("=?utf-8?q?=0D=0ABcc:x?=", "= ?utf-8?q?=0D=0ABcc:x?="), ("=\u200b?", "= ?"), ("a\u2066b\u2069\u200e", "ab"),
     ("x" * 200, "x" * 99 + "…")],
)  # fmt: skip
def test_one_line(given: str, shown: str) -> None:
    assert mailtext.one_line(given) == shown


def test_the_site_name_cannot_add_a_header() -> None:
    declare("nlp")
    user = lead()
    found = weekly_of(user)
    object.__setattr__(found.site, "name", "Hall\r\nBcc: x@example.org")
    made = mailmake.message(user, WEEKLY, found, "k")
    assert "Bcc" not in message_from_bytes(made.message().as_bytes())
    assert made.subject.startswith("Hall Bcc: x@example.org: Week 48")


@pytest.mark.parametrize("called", ["Hall", "H\u00e4ll"])
def test_an_encoded_word_in_a_name_is_text_to_who_decodes_the_header(called: str) -> None:
    """As sent it would be a line break and a header of its own; with an umlaut the whole subject is encoded by us."""
    declare("nlp")
    user = lead()
    found = weekly_of(user)
    object.__setattr__(found.site, "name", f"{called} =?utf-8?q?=0D=0ABcc:x?= =\u202e?utf-8?b?DQpCY2M6eA==?=")
    read = message_from_bytes(mailmake.message(user, WEEKLY, found, "k").message().as_bytes(), policy=default)
    subject = str(read["Subject"]).strip()
    assert subject.startswith(f"{called} = ?utf-8?q?=0D=0ABcc:x?= = ?utf-8?b?DQpCY2M6eA== ?=: Week 48 of 2026")
    assert not set("\r\n\u202e") & set(subject)
    assert "Bcc" not in read


# --- the page ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("books")
def test_the_page_shows_what_is_sent_and_switches_it() -> None:
    user = lead()
    client = signed_in(user)
    page = main_of(html_of(client, "/mail/"))
    assert "What Hallbook sends to lea@example.org." in page
    assert "No mail server is set." in page
    assert page.count("Switch off") == 1
    assert page.count("Switch on") == 1
    assert client.post("/mail/choose", {"kind": "weekly", "wanted": "off"})["Location"] == "/mail/#weekly"
    assert client.post("/mail/choose", {"kind": "receipt", "wanted": "on"}).status_code == 302
    assert not mailkinds.choice_of(user, WEEKLY).wanted
    assert mailkinds.choice_of(user, RECEIPT).wanted
    assert client.post("/mail/choose", {"kind": "spam", "wanted": "on"}).status_code == 404
    assert client.get("/mail/choose").status_code == 405
    tasks.turn(MONDAY)
    assert django_mail.outbox == []


@pytest.mark.parametrize(
    ("came", "chose", "said"),
    [("29 12:00", None, ""),
     ("30 21:02", None, ". That of Monday, 30 Nov, was due before your login was made (30 Nov 22:02:00)"),
     ("29 12:00", "30 12:30", ". That of Monday, 30 Nov, was due before you switched it on (30 Nov 13:30:00)"),
     ("30 21:02", "30 21:30", ". That of Monday, 30 Nov, was due before you switched it on (30 Nov 22:30:00)")],
)  # fmt: skip
@pytest.mark.usefixtures("books")
def test_who_came_after_its_hour_begins_with_the_next_and_is_told_so(came: str, chose: str | None, said: str) -> None:
    """Due on Monday, 30 November, 06:00 UTC; looked at on Monday at 22:00 UTC, 23:00 in Berlin."""

    def instant(text: str) -> datetime:
        return datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=UTC)

    user, now = lead(), instant("30 22:00")
    user.date_joined = instant(came)
    user.save()
    if chose:
        mailkinds.choose(user, WEEKLY, user.date_joined, wanted=False)
        mailkinds.choose(user, WEEKLY, instant(chose), wanted=True)
    offer = mail._offer(user, WEEKLY, site(), now, leads=True)
    assert offer.note.partition("; ")[2] == f"the next one on Monday, 7 Dec, 07:00 CET{said}"
    tasks.turn(now)
    assert len(django_mail.outbox) == (0 if said else 1)


def test_the_page_needs_a_login_and_the_switch_a_token() -> None:
    for path in ("/mail/", "/mail/preview", "/mail/preview.txt"):
        assert Client().get(path)["Location"] == f"/login/?next={path}"
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person("lea"))
    assert strict.post("/mail/choose", {"kind": "receipt", "wanted": "on"}).status_code == 403


@pytest.mark.usefixtures("books")
def test_the_preview_is_the_mail_in_a_sandbox() -> None:
    client = signed_in(lead())
    page = html_of(client, "/mail/")
    assert re.search(r'<iframe[^>]* src="/mail/preview"[^>]* sandbox></iframe>', page)
    response = client.get("/mail/preview")
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"(^|; )sandbox( |;|$)", policy)
    assert "frame-ancestors 'self'" in policy
    assert response["X-Frame-Options"] == "SAMEORIGIN"
    assert b"/mail/off/" not in response.content
    assert "unsafe-inline" not in client.get("/mail/")["Content-Security-Policy"]
    assert client.get("/mail/preview.txt")["Content-Type"].startswith("text/plain")


def test_who_has_no_project_has_no_preview() -> None:
    declare("nlp")
    client = signed_in(person("sam"))
    page = main_of(html_of(client, "/mail/"))
    assert "No project is granted to you" in page
    assert "You have no e-mail address here" in page
    assert "<iframe" not in html_of(client, "/mail/")
    assert client.get("/mail/preview").status_code == 404


# --- switching off by the link ---------------------------------------------------------------------------------------


def link(user: Any, kind: Any = WEEKLY) -> str:
    return f"/mail/off/{mailoff.token(user, kind)}/"


def test_the_link_asks_first_and_a_post_without_login_switches_off_that_kind_alone() -> None:
    declare("nlp")
    user = lead()
    mailkinds.choose(user, RECEIPT, MONDAY, wanted=True)
    nobody = Client(enforce_csrf_checks=True)
    asked = nobody.get(link(user))
    assert asked.status_code == 200
    assert b"Switch it off" in asked.content
    assert mailkinds.choice_of(user, WEEKLY).wanted
    done = nobody.post(link(user), "List-Unsubscribe=One-Click", content_type="application/x-www-form-urlencoded")
    assert done.status_code == 200
    assert b"Weekly report is off" in done.content
    assert not mailkinds.choice_of(user, WEEKLY).wanted
    assert mailkinds.choice_of(user, RECEIPT).wanted
    assert nobody.post(link(user)).status_code == 200  # once more changes nothing
    assert b"lea" not in asked.content + done.content


def test_a_link_that_was_changed_is_none() -> None:
    declare("nlp")
    lea, ben = lead(), lead("ben", address="ben@example.org")
    one, other = mailoff.token(lea, WEEKLY), mailoff.token(ben, RECEIPT)
    data, signature = one.split(":", 1)
    forged = [f"{other.split(':', 1)[0]}:{signature}", f"{data}:x{signature[1:]}", data, "x", "a" * 5000, one[:-1]]
    for text in forged:
        assert Client().post(f"/mail/off/{text}/").status_code == 404, text
    assert mailkinds.choice_of(lea, WEEKLY).wanted
    lea_link = link(lea)
    lea.delete()
    assert Client().get(lea_link).status_code == 404


# --- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("books")
def test_weekly_by_hand(capsys: Any) -> None:
    lead()
    call_command("mail", "weekly", "--week", WEEK, "--dry-run")
    told = plain(capsys.readouterr().out)
    assert "To: lea <lea@example.org>" in told
    assert "100.0 GPU-h used" in told
    assert (django_mail.outbox, MailSent.objects.count()) == ([], 0)
    call_command("mail", "weekly", "--week", WEEK)
    call_command("mail", "weekly", "--week", WEEK)
    assert len(django_mail.outbox) == 1
    call_command("mail", "weekly", "--week", WEEK, "--to", "lea")  # by name: once more
    assert len(django_mail.outbox) == 2
    assert [row.ref for row in MailSent.objects.order_by("created_at")] == [WEEK, f"{WEEK}/2"]


@pytest.mark.usefixtures("books")
def test_by_hand_nobody_gets_what_it_may_not_or_does_not_want() -> None:
    user = lead()
    mailkinds.choose(user, WEEKLY, MONDAY, wanted=False)
    with pytest.raises(CommandError, match="switched this kind of mail off") as refused:
        call_command("mail", "weekly", "--week", WEEK, "--to", "lea")
    assert refused.value.returncode == 1
    for arguments in (["weekly", "--week", "48"], ["weekly", "--to", "nobody"], ["test", "no address"],
                      ["address", "lea", "none"], ["again", "abcd1234"]):  # fmt: skip
        with pytest.raises(CommandError) as refused:
            call_command("mail", *arguments)
        assert refused.value.returncode == 2, arguments


def test_a_trial_and_an_address_by_hand() -> None:
    user = person("lea")
    call_command("mail", "address", "lea", "lea@example.org")
    user.refresh_from_db()
    assert user.email == "lea@example.org"
    call_command("mail", "test", "ops@example.org")
    assert (sent().to, sent().subject) == (["ops@example.org"], "Hallbook can send mail")


@pytest.mark.usefixtures("books")
def test_without_a_server_mails_are_files_for_their_owner_only(settings: Any, tmp_path: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    lead()
    tasks.turn(MONDAY)
    [file] = tmp_path.iterdir()
    assert b"To: lea@example.org" in file.read_bytes()


def test_times_are_of_the_site() -> None:
    assert MONDAY.astimezone(ZoneInfo("Europe/Berlin")).hour == 7
    assert at("2026-11-30 07:00") == int(MONDAY.timestamp())


# --- where programs and shares tell more -----------------------------------------------------------------------------


def test_goodput_and_waste_where_a_program_told() -> None:
    """The attempt of tests/jobs/test_training.py (16 GPU-h, 40.56 % productive), and 4 GPU-h that told nothing."""
    declare("nlp")
    common = {"run": "big", "state": "NODE_FAIL", "nodes": 2}
    book(job("nlp", "2026-03-01 11:00", 1, 16, job_id="1", wait=300, **common),
         job("nlp", "2026-03-01 13:00", 0.5, 8, job_id="2", **common))  # fmt: skip
    append(list(FAULT))
    projector.catch_up()
    user = lead()
    text = plain(mailmake.text_of(WEEKLY, weekly_of(user, "2026-W09"), user))
    assert "Goodput: 40.56 % (productive of 16.0 instrumented GPU-h of attempts that ended)" in text
    assert "Goodput: 4.0 GPU-h of ended attempts are not instrumented." in text
    # 18 720 + 9 600 + 960 GPU-s of the first, all 14 400 of the second: 43 680 of 72 000.
    assert "Held in vain: 12.1 GPU-h (60.67 % of what ended attempts held)" in text
    assert "- Rolled back: 5.2 (42.86 %)" in text
    assert "- Failed: 4.0 (32.97 %)" in text
    assert "- big: 12.1 (u1: rolled back, failed, restart after a fault, partial gang)" in text
    page = main_of(html_of(signed_in(user), "/projects/nlp/?from=2026-02-23&to=2026-03-01"))
    assert "Goodput 40.56 %" in page
    assert "12.1" in page


@pytest.mark.usefixtures("books")
def test_standing_is_that_of_the_page() -> None:
    shares = [
        AssociationReported("pod-a", name, parent="root", shares=number) for name, number in (("nlp", 3), ("vision", 1))
    ]
    users = [AssociationReported("pod-a", "nlp", name, shares=1) for name in ("u1", "u9")]
    fair = FairshareConfigured("pod-a", "2026-11-01", 7 * 86_400, mode="continuous", weights=("*=gpu:1000",))
    say(*shares, *users, fair, key="s")
    projector.catch_up()
    user = lead()
    [part] = weekly_of(user).sections[0].standing
    page = html_of(signed_in(user), "/projects/nlp/?from=2026-11-23&to=2026-11-29")
    [row] = table(page, "Fair share")
    assert (part.name, part.value) == ("nlp", f"level {row[5]}")
    assert part.note.startswith(f"share {row[3]}, use {row[4]}; best rank of its 2 users: ")
    assert part.note.startswith("share 0.750, ")  # 3 of 4 shares
    assert part.note.endswith(": 1")  # u9 used nothing and is served first


@pytest.mark.usefixtures("books")
def test_the_page_asks_the_database_no_more_than_it_did() -> None:
    client = signed_in(lead())
    client.get("/mail/")
    with CaptureQueriesContext(connection) as asked:
        client.get("/mail/")
    committed = json.loads((Path(__file__).parent / "query_counts.json").read_text(encoding="utf-8"))
    assert len(asked) == committed["page-mail"], [query["sql"] for query in asked]

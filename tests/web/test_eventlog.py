"""The event log: what a search finds and in what order, the permalink with its proof, and who may see either."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection, connections
from django.test import Client

from events import actions, queries_log
from events.access import Scope
from events.adapters import Draft
from events.intake import Intake
from events.queries_log import Wanted, position_at, search
from events.types.jobs import JobLost, JobReported
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words

pytestmark = pytest.mark.usefixtures("hall")
EVERYTHING = Scope.everything()


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """Positions 1 to 8: site, two projects with an account each, then three jobs of two people."""
    declare("atlas", "vision")
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, user="ada", job_id="101"),
        job("vision", "2026-10-03 09:30", 1.5, 1, user="cy", job_id="102"),
        job("vision", "2026-10-04 09:30", 0.5, 0, user="cy", job_id="1020", state="FAILED", exit_code=3),
    )


def positions(**wanted: Any) -> list[int]:
    return [row.position for row in search(EVERYTHING, Wanted(**wanted)).rows]


def test_each_filter_finds_just_what_it_names() -> None:
    fill()
    assert positions() == [8, 7, 6, 5, 4, 3, 2, 1]
    assert positions(types=("job.reported",)) == [8, 7, 6]
    assert positions(stream="job/pod-a/102") == [8, 7]  # also 1020: a beginning of a name
    assert positions(stream="job/pod-a/102", last=7) == [7]
    assert positions(source="test") == [8, 7, 6]
    assert positions(actor="nobody") == []
    assert positions(first=4, last=6) == [6, 5, 4]
    day = datetime(2026, 10, 3, tzinfo=UTC)
    assert positions(types=("job.reported",), occurred_from=day, occurred_to=day + timedelta(days=1)) == [7]
    assert positions(first=9) == []
    assert search(Scope.only({"atlas"}), Wanted()).rows == ()


def test_a_search_in_windows_finds_the_same_in_pages_both_ways(monkeypatch: Any) -> None:
    fill()
    monkeypatch.setattr(queries_log, "WINDOW", 3)
    monkeypatch.setattr(queries_log, "NARROW", 0)
    seen, before = [], None
    for _ in range(9):
        page = search(EVERYTHING, Wanted(), before=before, limit=2)
        seen += [row.position for row in page.rows]
        before = page.older
        if before is None:
            break
    assert seen == [8, 7, 6, 5, 4, 3, 2, 1]
    back = search(EVERYTHING, Wanted(), after=4, limit=2)
    assert ([row.position for row in back.rows], back.newer, back.older) == ([6, 5], 6, 5)
    assert [row.position for row in search(EVERYTHING, Wanted(stream="job/"), before=8, limit=9).rows] == [7, 6]


def test_a_search_that_takes_too_long_says_how_far_it_read(monkeypatch: Any, admin: Client) -> None:
    fill()
    monkeypatch.setattr(queries_log, "WINDOW", 2)
    found = search(EVERYTHING, Wanted(types=("site.declared",)), budget=-1)
    assert (found.rows, found.read_from, found.read_to, found.older) == ([], 7, 8, 7)
    monkeypatch.setattr(queries_log, "BUDGET_SECONDS", -1)
    monkeypatch.setattr(queries_log.search, "__kwdefaults__", {**queries_log.search.__kwdefaults__, "budget": -1})
    html = html_of(admin, "/events/?type=site.declared")
    assert "Positions 7 to 8 searched. None of them fits." in main_of(html)
    assert 'href="?type=site.declared&amp;before=7"' in html


def test_position_at_an_instant_is_the_last_one_recorded_before_it() -> None:
    fill()
    with connection.cursor() as cursor:
        cursor.execute("SELECT recorded_at FROM events_event ORDER BY position")
        times = [row[0] for row in cursor.fetchall()]
    assert position_at(times[0]) == 0
    assert position_at(times[-1] + timedelta(seconds=1)) == 8
    assert position_at(times[5]) == 5  # positions 6 to 8 were appended together


def test_the_list_says_what_happened_in_words(admin: Client) -> None:
    fill()
    rows = table(html_of(admin, "/events/"), "Events, newest first")
    assert [row[0] for row in rows] == ["8", "7", "6", "5", "4", "3", "2", "1"]
    year = "" if datetime.now(UTC).year == 2026 else " 2026"
    assert rows[2][3:] == [
        "job.reported", "job/pod-a/101", "test",
        f"COMPLETED after 10 h 00 min, 2 Oct{year} 08:00:00 to 18:00:00; 8 GPUs on 1 node; user ada; account atlas",
    ]  # fmt: skip
    assert rows[0][6].endswith("account vision; exit 3:0")
    assert rows[7][6] == "The site is Hall 1, its time Europe/Berlin, its currency EUR."
    assert rows[3][6] == "Account vision of pod-a belongs to vision from 2020-01-01 on."


def test_people_are_found_by_name(admin: Client) -> None:
    fill()
    rows = table(html_of(admin, "/events/?user=cy"), "Events, newest first")
    assert [row[0] for row in rows] == ["8", "7"]
    assert "No event fits" in main_of(html_of(admin, "/events/?user=nobody"))


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("first=abc", "first", "A position is a whole number"),
        ("from=yesterday", "from", "Write a day as 2026-11-30"),
        ("from=2026-10-05&to=2026-10-01", "to", "The end lies before the start."),
        ("first=9&last=3", "last", "before the first one"),
        ("type=no.such", "type", "There is no such type"),
        ("delivery=xyz", "delivery", "A delivery has an id such as"),
    ],
)
def test_what_cannot_be_searched_for_is_told_beside_its_field(admin: Client, query: str, field: str, text: str) -> None:
    html = html_of(admin, f"/events/?{query}", 400)
    assert f'aria-describedby="x-{field}"' in html
    assert text in words(html)


def test_times_of_the_form_are_the_sites(admin: Client) -> None:
    fill()
    # Job 102 ends at 11:00 in Berlin, which is 09:00 UTC.
    within = "/events/?type=job.reported&from=2026-10-03T10:59&to=2026-10-03T11:01"
    assert [row[0] for row in table(html_of(admin, within), "Events, newest first")] == ["7"]
    assert "No event fits" in main_of(html_of(admin, within.replace("T10:59", "T11:00:01")))
    whole_day = "/events/?type=job.reported&from=2026-10-03&to=2026-10-03"
    assert [row[0] for row in table(html_of(admin, whole_day), "Events, newest first")] == ["7"]


def test_files_and_api_hold_the_same_events(admin: Client) -> None:
    fill()
    html = html_of(admin, "/events/?stream=job/pod-a/102&user=cy&first=2&last=7")
    link = html.split('aria-label="API: events"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    answer = admin.get(link).json()
    assert [row["position"] for row in answer["results"]] == [7]


def test_an_event_stands_with_its_digest_and_chain(admin: Client) -> None:
    fill()
    html = html_of(admin, "/events/6/")
    read = main_of(html)
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT e.source_key, e.data::text, (extract(epoch FROM e.occurred_at) * 1000000)::bigint, b.hash,
                      p.hash, (extract(epoch FROM b.recorded_at) * 1000000)::bigint
               FROM events_event e, events_block b, events_block p
               WHERE e.position = 6 AND b.upto = 8 AND p.upto = 5"""
        )
        key, data, occurred, after, before, recorded = cursor.fetchone()
    # docs/decisions/0001: sha256 over the sorted compact JSON of all that a fact says.
    body = msgspec.Raw(msgspec.json.encode(msgspec.json.decode(data), order="sorted"))
    said = ("test", key, "job.reported", 1, "job/pod-a/101", occurred, "test", body)
    assert hashlib.sha256(msgspec.json.encode(said)).hexdigest() in read
    assert bytes(after).hex() in read
    assert bytes(before).hex() in read
    assert recorded > occurred
    assert "with positions 6 to 8" in read
    assert "computed again just now and fit what is stored" in read
    assert "applied by all of them" in read
    assert "101 on pod-a , attempt 1 of 1" in read
    assert "GPUs gpus 8" in read
    assert "Started start 2 Oct 2026 08:00:00" in read


def test_a_changed_event_is_shown_as_damage(admin: Client) -> None:
    fill()
    with connections["owner"].cursor() as cursor:
        cursor.execute("ALTER TABLE events_event DISABLE TRIGGER append_only_rows")
        cursor.execute("UPDATE events_event SET data = data || '{\"gpus\": 80}' WHERE position = 7")
    connections["owner"].close()
    read = main_of(html_of(admin, "/events/8/"))  # appended together with it
    assert "This part of the log is not as it was written." in read
    assert "position 7: what is stored is not what was written (digest differs)" in read
    assert "computed again" not in read
    assert "computed again" in main_of(html_of(admin, "/events/5/"))


def test_neighbours_lead_along_the_stream(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8, job_id="7"), job("atlas", "2026-10-02 12:00", 1, 8, job_id="8"))
    book(job("atlas", "2026-10-02 08:00", 2, 8, job_id="7"))
    html = html_of(admin, "/events/4/")
    assert "In its stream After: 6" in main_of(html)
    assert "Before: 3" in main_of(html)


def test_an_event_of_a_delivery_leads_to_it_and_names_never_lie_in_the_data(admin: Client) -> None:
    declare("atlas")
    delivery = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
    taken = Intake(source="hook:pod-a", actor="token:t", delivery=delivery)
    data = JobReported("pod-a", "9", "RUNNING", start=at("2026-10-02 08:00"), user="zoe", name="secret plan")
    taken.take([Draft("job.reported", data, "9", at("2026-10-02 08:00") * 1_000_000, 0)])
    html = html_of(admin, "/events/4/")
    assert f'href="/deliveries/{delivery}/"' in html
    assert "zoe" in main_of(html)
    stored = html.split('aria-label="The event', 1)[1].split("</pre>")[0]
    assert "zoe" not in stored
    assert "secret plan" not in stored


def test_sentences_of_jobs_that_were_lost(admin: Client) -> None:
    declare("atlas")
    start, seen = at("2026-10-02 08:00"), at("2026-10-02 09:30")
    actions.say(JobLost("pod-a", "9", start, seen, "unseen"), type_="job.lost", actor="test")
    assert (
        "Taken for lost: the scheduler shows it no more. The attempt from 2 Oct 2026 08:00:00 is charged until "
        "2 Oct 2026 09:30:00."
    ) in main_of(html_of(admin, "/events/4/"))


def test_only_those_who_see_everything_may_read_the_log() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    for path in ("/events/", "/events/7/", "/events/99/"):
        read = words(html_of(lead, path, 403))
        assert "only staff may see it" in read
        assert "COMPLETED" not in read
    assert Client().get("/events/").status_code == 302
    assert signed_in(person("ada", admin=True)).post("/events/").status_code == 405


def test_there_is_no_event_beyond_the_head(admin: Client) -> None:
    fill()
    for path in ("/events/0/", "/events/9/", f"/events/{2**70}/"):
        html_of(admin, path, 404)


def test_the_empty_log_says_what_to_do(admin: Client) -> None:
    read = main_of(html_of(admin, "/events/"))
    assert "The log is empty" in read
    assert "Connect a source" in read


def test_a_search_asks_few_questions(admin: Client, django_assert_max_num_queries: Any) -> None:
    fill()
    admin.get("/events/")
    with django_assert_max_num_queries(14):
        admin.get("/events/?stream=job/pod-a&type=job.reported")
    with django_assert_max_num_queries(28):
        admin.get("/events/7/")

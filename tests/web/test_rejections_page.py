"""Rejections: the place that is wrong, taking again, letting go, one and many, and who may do so."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.test import Client

from events import deliveries, queries, settle_many
from events.access import Scope
from events.adapters import Refusal
from events.intake import Intake
from tests.api.clouds import STRUCTURED, cloud
from tests.web.books import declare, person, signed_in
from tests.web.pages import html_of, main_of, table, words
from web.pretty import as_sent

pytestmark = pytest.mark.usefixtures("hall")
ALL = Scope.everything()


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def refuse(*records: Any, source: str = "slurm/pod-a", code: str = "invalid", pointer: str = "") -> list[uuid.UUID]:
    """Rejections of records as they would come in a batch."""
    items = [Refusal(n, pointer, code, "is wrong", r if isinstance(r, str) else json.dumps(r), source)
             for n, r in enumerate(records)]  # fmt: skip
    return [result.rejection for result in Intake(source, "token:t", "POST /api/v1/events").reject(items)]


def state_of(id_: uuid.UUID) -> tuple[str, str, str]:
    row = queries.rejections(ALL).get(id=id_)
    return row.state, row.settled_by, row.settled_why


def test_the_list_filters_and_counts(admin: Client) -> None:
    declare("nlp")
    refuse("a", "b", code="bad_time", pointer="End")
    refuse("c", source="hook:pod-a", code="malformed")
    rows = table(html_of(admin, "/rejections/?code=bad_time"), "Rejections: 2 rejections. Times in Europe/Berlin.")
    assert [(row[0], *row[2:5]) for row in rows] == [("no time", "open", "slurm/pod-a", "End")] * 2
    assert "1 rejection" in main_of(html_of(admin, "/rejections/?source=hook:pod-a"))
    assert "There is no such filter" in main_of(html_of(admin, "/rejections/?colour=red", 400))


def test_the_place_is_marked_in_the_record(admin: Client) -> None:
    declare("nlp")
    (id_,) = refuse(cloud("e1", data={"gpus": "eight"}), pointer="/data/gpus")
    html = html_of(admin, f"/rejections/{id_}/")
    assert html.count("<mark>") == 1
    assert '<mark>    "gpus": "eight",</mark>' in html.replace("&quot;", '"')


@pytest.mark.parametrize(
    ("text", "pointer", "marked"),
    [
        ('{"a": {"b": [1, {"c/d": 2}]}}', "/a/b/1/c~1d", ['        "c/d": 2']),
        ('{"a": {"b": [1, 2]}}', "/a/b", ['    "b": [', "      1,", "      2", "    ]"]),
        ('{"a": {"b": 1}}', "/a/missing", ['  "a": {', '    "b": 1', "  }"]),
        ('{"a": 1}', "/nowhere", []),
        ('{"a": 1}', "", []),
        ("412|x|12:30", "End", []),
        ("[1", "/0", []),
    ],
)
def test_pointers(text: str, pointer: str, marked: list[str]) -> None:
    assert [line.text for line in as_sent(text, pointer) if line.marked] == marked


def test_taking_again_after_a_fix_brings_it_into_the_log(admin: Client) -> None:
    declare("nlp")
    (id_,) = refuse(cloud("e1"))
    answer = admin.post(f"/rejections/{id_}/replay", follow=True)
    read = main_of(answer.content.decode())
    assert "It was taken again and is in the log now." in read
    assert "taken again by ada" in read
    (event,) = queries.events(ALL).filter(source_key="e1")
    assert (event.source, event.actor, event.data["job_id"]) == ("slurm/pod-a", state_of(id_)[1], "412")
    again = main_of(admin.post(f"/rejections/{id_}/replay", follow=True).content.decode())
    assert "Settled already" in again


def test_what_is_refused_still_stays_open(admin: Client) -> None:
    declare("nlp")
    (ahead,) = refuse(cloud("e1", time="2035-01-01T00:00:00Z"), code="clock_ahead")
    (torn,) = refuse('{"specversion": "1.0", ')
    read = main_of(admin.post(f"/rejections/{ahead}/replay", follow=True).content.decode())
    assert "Clock ahead of ours at /time: time is" in read
    assert "It stays open." in read
    read = main_of(admin.post(f"/rejections/{torn}/replay", follow=True).content.decode())
    assert "Cannot be taken again from here" in read
    assert [state_of(id_)[0] for id_ in (ahead, torn)] == ["open", "open"]
    assert not queries.events(ALL).filter(source_key="e1").exists()


def test_a_line_of_a_file_is_brought_again_and_not_taken_again(admin: Client) -> None:
    declare("nlp")
    line, event = refuse("412|COMPLETED|12:30", cloud("e1"), code="bad_time", pointer="End")
    html = html_of(admin, f"/rejections/{line}/")
    assert "Correct it at its source and bring it again" in main_of(html)
    assert "Take it again" not in main_of(html)
    assert "Take it again" in main_of(html_of(admin, f"/rejections/{event}/"))


def test_letting_go_needs_a_reason(admin: Client) -> None:
    declare("nlp")
    (id_,) = refuse("x")
    html = admin.post(f"/rejections/{id_}/waive", {"why": " a "})
    assert html.status_code == 400
    assert "Say why, so that others understand it later." in words(html.content.decode())
    assert state_of(id_)[0] == "open"
    read = main_of(admin.post(f"/rejections/{id_}/waive", {"why": "a test of mine"}, follow=True).content.decode())
    assert "let go by ada: a test of mine" in read
    assert state_of(id_)[0::2] == ("waived", "a test of mine")
    assert "What to do" not in read


def test_many_at_once_say_how_many_of_each(admin: Client) -> None:
    declare("nlp")
    good = refuse(cloud("e1"), cloud("e2"))
    late = refuse(cloud("e3", time="2035-01-01T00:00:00Z"), "{")
    other = refuse(cloud("e4"), source="hook:pod-a")
    assert "Settle all 4 open ones that fit these filters" in main_of(html_of(admin, "/rejections/?source=slurm/pod-a"))
    answer = admin.post("/rejections/replay", {"source": "slurm/pod-a"}, follow=True)
    assert answer.redirect_chain == [("/rejections/?source=slurm%2Fpod-a", 302)]
    read = main_of(answer.content.decode())
    assert "2 taken again. 2 not, and stay open: 1 clock ahead of ours, 1 cannot be taken again from here." in read
    assert [state_of(id_)[0] for id_ in (*good, *late, *other)] == ["replayed", "replayed", "open", "open", "open"]
    read = main_of(admin.post("/rejections/waive", {"state": "open", "why": "old tests"}, follow=True).content.decode())
    assert "3 let go." in read
    assert queries.rejections(ALL).filter(state="open").count() == 0
    read = main_of(admin.post("/rejections/waive", {"why": "x"}, follow=True).content.decode())
    assert "Say why" in read


def test_many_stop_when_their_time_is_up(monkeypatch: Any) -> None:
    declare("nlp")
    ids = refuse(*[cloud(f"e{number}") for number in range(5)])
    many = settle_many.replay_many(ids, "user:1", budget=-1)
    assert (many.settled, many.left) == (1, 4)


def test_a_delivery_that_an_adapter_could_not_bear_is_taken_whole_after_the_fix(
    admin: Client, monkeypatch: Any
) -> None:
    declare("nlp")

    def broken(*_: Any) -> Any:
        raise RuntimeError("cannot bear it")

    right = deliveries.ADAPTERS["cloudevents"]
    monkeypatch.setitem(deliveries.ADAPTERS, "cloudevents", broken)
    deliveries.accept_delivery(
        source="slurm/pod-a", kind="cloudevents", content_type=STRUCTURED, headers={},
        body=json.dumps(cloud("e9")).encode(), actor="token:t",
    )  # fmt: skip
    deliveries.drain()
    monkeypatch.setitem(deliveries.ADAPTERS, "cloudevents", right)
    (row,) = queries.rejections(ALL)
    assert "could not be translated" in main_of(html_of(admin, f"/rejections/{row.id}/"))
    admin.post(f"/rejections/{row.id}/replay")
    assert queries.events(ALL).filter(source_key="e9").exists()
    assert state_of(row.id)[0] == "replayed"


def test_only_staff_settles_and_only_with_a_token() -> None:
    declare("nlp")
    (id_,) = refuse(cloud("e1"))
    lead = signed_in(person("lea", projects=("nlp",)))
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(person("ada", admin=True))
    for path in (f"/rejections/{id_}/replay", f"/rejections/{id_}/waive", "/rejections/replay", "/rejections/waive"):
        assert lead.post(path, {"why": "because"}).status_code == 403
        assert Client().post(path, {"why": "because"}).status_code == 302
        assert careful.post(path, {"why": "because"}).status_code == 403
        assert signed_in(person(f"x{path.count('/')}{len(path)}", admin=True)).get(path).status_code == 405
    assert state_of(id_)[0] == "open"
    for path in ("/rejections/", f"/rejections/{id_}/"):
        assert "only staff may see it" in words(html_of(lead, path, 403))
    html_of(signed_in(person("al", admin=True)), f"/rejections/{uuid.uuid4()}/", 404)


def test_records_are_shown_as_text(admin: Client) -> None:
    declare("nlp")
    (id_,) = refuse('<img src=x onerror="alert(1)">')
    assert "<img" not in html_of(admin, f"/rejections/{id_}/").split("<main", 1)[1]

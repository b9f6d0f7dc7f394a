"""Sources and deliveries: what came when, what was refused, who has fallen silent, and the body as it was sent."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from events import deliveries, projector, tally
from events.queries_log import Rhythm
from fleet import actions
from fleet.models import Source
from tests.api.clouds import STRUCTURED, cloud
from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words
from web.sources import quiet_after

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def keep(body: Any, source: str = "slurm/pod-a", **headers: str) -> uuid.UUID:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return deliveries.accept_delivery(
        source=source, kind="cloudevents", content_type=STRUCTURED, headers=headers, body=raw, actor="token:t"
    )


def drained() -> None:
    while deliveries.drain():
        pass
    projector.catch_up()


def age(source: str, *seconds: float) -> None:
    """Move the source's deliveries, oldest first, to so many seconds ago, and what was counted with them."""
    now = datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM events_delivery WHERE source = %s ORDER BY received_at", [source])
        ids = [row[0] for row in cursor.fetchall()]
        for id_, ago in zip(ids, seconds, strict=True):
            at = now - timedelta(seconds=ago)
            cursor.execute("UPDATE events_delivery SET received_at = %s WHERE id = %s", [at, id_])
        newest = now - timedelta(seconds=min(seconds))
        cursor.execute("UPDATE events_tally SET last_received = %s WHERE source = %s", [newest, source])


def test_the_table_counts_what_came(admin: Client) -> None:
    declare("nlp")
    first = cloud("e1")
    for body in (first, first, cloud("e1", data={"gpus": 9}), cloud("e2", time="2035-01-01T00:00:00Z")):
        keep(body)
    drained()
    keep(cloud("e3"))
    (row,) = table(html_of(admin, "/sources/"), "They send")
    # accepted e1; the same again is a duplicate; another record under the same id and one from 2035 are refused.
    assert row[:3] == ["slurm/pod-a", "cloudevents", "speaks"]
    assert row[6:] == ["4", "1", "1", "2", "2", "1"]


def test_refused_records_are_a_concern_that_leads_to_them(admin: Client) -> None:
    declare("nlp")
    keep(cloud("e2", time="2035-01-01T00:00:00Z"))
    drained()
    html = html_of(admin, "/sources/")
    assert "slurm/pod-a 1 record refused and open. Take them again or let them go." in main_of(html)
    link = "/rejections/?state=open&source=slurm%2Fpod-a"
    assert f'href="{link.replace("&", "&amp;")}"' in html
    assert "clock ahead of ours" in main_of(html_of(admin, link))


def test_silence_is_told_against_the_sources_own_habit(admin: Client) -> None:
    declare("nlp")
    for number in range(4):
        keep(cloud(f"a{number}"), source="often")
        keep(cloud(f"b{number}"), source="rarely")
    drained()
    age("often", 840, 830, 820, 810)  # every 10 s, then nothing for 13 min
    age("rarely", 4200, 3200, 2200, 1200)  # every 1 000 s, the last 20 min ago: within three of its gaps
    read = main_of(html_of(admin, "/sources/"))
    assert "often has been silent for 13 min; usually it speaks every 10 s." in read
    assert "rarely has been silent" not in read
    age("rarely", 6100, 5100, 4100, 3100)
    assert "rarely has been silent for 51 min; usually it speaks every 16 min." in main_of(html_of(admin, "/sources/"))


def test_a_prometheus_that_stops_is_told_after_ten_minutes(admin: Client) -> None:
    now = datetime.now(UTC)
    for source, ago, accepted in (("prometheus:a", 599, 5), ("prometheus:b", 660, 5), ("prometheus", 9000, 0)):
        tally.note([tally.Settled(source, "remote-write", now - timedelta(seconds=ago), accepted, 2, 0)])
    html = html_of(admin, "/sources/")
    rows = {row[0]: (row[2], row[7], row[8]) for row in table(html, "They send")}
    assert rows == {
        "prometheus:a": ("speaks", "5", "2"), "prometheus:b": ("silent", "5", "2"), "prometheus": ("speaks", "0", "2"),
    }  # fmt: skip
    assert "prometheus:b has been silent for 11 min. Look whether Prometheus runs" in main_of(html)


@pytest.mark.parametrize(("gap", "limit"), [(None, None), (1.0, 600), (200.0, 600), (201.0, 603.0), (3600.0, 10_800.0)])
def test_the_limit_of_silence(gap: float | None, limit: float | None) -> None:
    assert quiet_after(Rhythm(9, gap)) == limit


def test_imports_are_seen_although_they_deliver_nothing(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8), job("atlas", "2026-10-02 09:00", 1, 8))
    rows = table(html_of(admin, "/sources/"), "Who speaks in the log")
    assert {row[0]: row[3] for row in rows} == {"test": "2", "hallbook": "3"}
    assert "2 sources 5" in main_of(html_of(admin, "/sources/"))


def test_without_any_source_the_page_says_how_to_connect_one(admin: Client) -> None:
    html = html_of(admin, "/sources/")
    assert "No source has spoken yet" in main_of(html)
    assert "JobCompLoc=http://testserver/api/v1/ingest/slurm/jobcomp?token=TOKEN" in words(html)
    assert "<details open>" in html


def test_a_delivery_stands_as_it_was_sent_with_what_became_of_it(admin: Client) -> None:
    declare("nlp")
    sent = cloud("e1")
    id_ = keep(sent, **{"x-hallbook-cluster": "pod-a"})
    again = keep(sent)
    drained()
    html = html_of(admin, f"/deliveries/{id_}/")
    read = main_of(html)
    assert "taken in" in read
    assert "x-hallbook-cluster pod-a" in read
    assert "1 event." in read
    assert [row[0] for row in table(html, "Events of this delivery")] == ["4"]
    assert '"job_id": "412",' in read
    assert "It brought nothing new" in main_of(html_of(admin, f"/deliveries/{again}/"))
    file = admin.get(f"/deliveries/{id_}/body")
    assert file.content == json.dumps(sent).encode()
    assert file["Content-Type"] == "application/octet-stream"
    assert "attachment" in file["Content-Disposition"]


def test_a_refused_and_a_waiting_delivery(admin: Client) -> None:
    declare("nlp")
    bad = keep(cloud("e2", time="2035-01-01T00:00:00Z"))
    drained()
    waits = keep(b'{"not": <script>alert(1)</script>')
    html = html_of(admin, f"/deliveries/{bad}/")
    (row,) = table(html, "What was refused of it")
    assert row[:3] == ["0", "open", "/time"]
    assert "It waits to be taken in" in main_of(html_of(admin, f"/deliveries/{waits}/"))
    assert "<script>alert" not in html_of(admin, f"/deliveries/{waits}/")
    assert "1 delivery" in main_of(html_of(admin, "/deliveries/?state=rejected"))
    assert "2 deliveries" in main_of(html_of(admin, "/deliveries/"))


def test_only_those_who_see_everything_may_look() -> None:
    declare("nlp")
    id_ = keep(cloud("e1"))
    lead = signed_in(person("lea", projects=("nlp",)))
    for path in ("/sources/", "/deliveries/", f"/deliveries/{id_}/", f"/deliveries/{id_}/body"):
        assert "only staff may see it" in words(html_of(lead, path, 403))
    admin = signed_in(person("ada", admin=True))
    html_of(admin, f"/deliveries/{uuid.uuid4()}/", 404)


def test_a_scheduler_that_cannot_be_asked_says_why_and_what_to_do(admin: Client) -> None:
    declare("nlp")
    now = datetime.now(UTC)
    Source.objects.create(
        name="slurm-a", kind="slurmrestd", cluster="pod-a", url="http://slurm:6820", every_seconds=10, pulls=40,
        records=7, watermark=now - timedelta(hours=2), last_success=now - timedelta(hours=1), last_try=now,
        last_error="connection refused", last_error_at=now, failures=3, api_version="v0.0.41",
    )  # fmt: skip
    html = html_of(admin, "/sources/")
    assert "slurm-a cannot be asked: connection refused. Look whether slurmrestd runs" in main_of(html)
    (row,) = table(html, "Hallbook asks them")
    assert row[:4] == ["slurm-a slurmrestd v0.0.41", "fails", "http://slurm:6820", "10 s"]
    assert row[6:8] == ["40", "7"]
    assert "connection refused" in row[8]


def test_a_webhook_that_was_set_up_is_one_row_before_and_after_it_speaks(admin: Client) -> None:
    declare("nlp")
    actions.add_webhook("pod-a", cluster="pod-a", actor="test")
    (row,) = table(html_of(admin, "/sources/"), "They send")
    assert row[:3] == ["pod-a", "webhook", "not heard yet"]
    keep(cloud("e1"), source="jobcomp:pod-a")
    drained()
    (row,) = table(html_of(admin, "/sources/"), "They send")
    assert row[:3] == ["jobcomp:pod-a", "cloudevents", "speaks"]

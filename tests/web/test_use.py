"""The page of use: its figures are the report's, its scope the caller's, its queries counted."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import reports
from events.access import Scope
from tests.web.books import BERLIN, book, declare, job, person, signed_in
from web import figures
from web.ranges import Days

OCTOBER = "/use/?from=2026-10-01&to=2026-10-31"
COUNTS = Path(__file__).parent / "query_counts.json"

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """Two projects over the night in which clocks go back, one account without project, an hour without GPU."""
    declare("atlas", "vision", rates={"h100": 2_000_000})
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, user="ada", wait=60),
        job("atlas", "2026-10-25 00:00", 25, 4, user="ben", wait=600),
        job("vision", "2026-10-03 09:30", 1.5, 1, user="cy", wait=0),
        job("lost", "2026-10-04 12:00", 2, 2, user="cy", wait=30),
        job("vision", "2026-10-05 12:00", 1, 0, user="cy", wait=30),
    )


def texts(html: str) -> str:
    """What a reader reads, with single spaces."""
    plain = re.sub(r"<script.*?</script>|<[^>]+>", " ", html, flags=re.S)
    return " ".join(unescape(plain).replace("\u202f", "").split())


def rows(html: str, table: str) -> dict[str, list[str]]:
    """Head of each row of a table -> its cells, as read."""
    block = html.split(f'id="{table}"', 1)[1].split("</table>", 1)[0]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", block, flags=re.S)[1:]:
        cells = [texts(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S)]
        found[cells[0]] = cells[1:]
    return found


def html_of(client: Client, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status
    return str(response.content.decode())


def test_key_figures_are_the_hand_counted_ones(admin: Client) -> None:
    fill()
    read = texts(html_of(admin, OCTOBER))
    assert "GPU-hours used 185.5 by 3 projects" in read  # 80 + 100 + 1.5 + 4
    assert "Attempts started 5 of 5 jobs" in read
    assert "Jobs ended 5" in read
    assert "Wait, median 30 s p95 10 min" in read
    assert "Cost 371 EUR without 8.0 CPU-h, which have no price" in read  # 185.5 x 2


def test_tables_hold_the_reports_figures_and_their_total(admin: Client) -> None:
    fill()
    html = html_of(admin, OCTOBER)
    zone = BERLIN
    days = Days(datetime(2026, 10, 1, tzinfo=UTC).date(), datetime(2026, 10, 31, tzinfo=UTC).date())
    report = reports.run("usage", Scope.everything(), days.params(zone, datetime.now(UTC), "project"))
    by_group = rows(html, "by-group")
    for row in report.rows:
        name = row["project"].replace("unmapped/lost", "lost no project")
        assert by_group[name][1] == figures.hours(row["gpu_seconds"]).replace("\u202f", "")
        assert by_group[name][5:7] == [str(row["attempts_started"]), str(row["jobs_ended"])]
    assert by_group["3 projects"][1] == figures.hours(report.total["gpu_seconds"]) == "185.5"
    assert by_group["3 projects"][8] == "371.00"
    by_day = rows(html, "by-time")
    assert by_day["25 Oct"][0] == "100.0"  # a day of 25 hours
    assert by_day["31 days"][0] == "185.5"
    assert "25 Oct has 25 hours." in texts(html)


def test_lack_of_price_is_never_zero(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    html = html_of(admin, OCTOBER)
    assert "Cost no price for 8.0 GPU-h" in texts(html)
    assert "Some use has no price. h100: 8.0 GPU-h" in texts(html)
    assert rows(html, "by-group")["atlas"][-1] == "no price"


def test_no_data_is_not_zero(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8), job("atlas", "2026-10-04 08:00", 1, 8))
    by_day = rows(html_of(admin, "/use/?from=2026-10-01&to=2026-10-05"), "by-time")
    assert by_day["1 Oct"] == ["no data"] * 5
    assert by_day["3 Oct"] == ["0.0", "0.0", "0.0", "0", "0"]
    assert by_day["5 Oct"] == ["no data"] * 5


def test_long_empty_stretches_are_one_row(admin: Client) -> None:
    fill()
    by_day = rows(html_of(admin, OCTOBER), "by-time")
    assert by_day["6 to 24 Oct 2026 19 days"] == ["0.0", "0.0", "0.0", "0", "0"]


def test_a_lead_sees_only_the_granted_project() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    for group in ("project", "user", "account"):
        html = html_of(lead, f"{OCTOBER}&group={group}")
        assert "GPU-hours used 1.5" in texts(html)
        for foreign in ("atlas", "lost", "ada", "ben", "185.5"):
            assert foreign not in html
    assert "no such project" in html_of(lead, f"{OCTOBER}&project=atlas", 400)
    assert "no such project" in html_of(lead, f"{OCTOBER}&project=unmapped/lost", 400)


def test_nobody_without_grant_sees_anything() -> None:
    fill()
    read = texts(html_of(signed_in(person("new")), "/use/"))
    assert "None was granted yet" in read
    assert "atlas" not in read


def test_an_own_project_is_zero_on_days_on_which_others_ran() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    by_day = rows(html_of(lead, "/use/?from=2026-10-02&to=2026-10-05"), "by-time")
    assert by_day["2 Oct"][0] == "0.0"


def test_narrowing_to_a_project_and_drilling_down(admin: Client) -> None:
    fill()
    html = html_of(admin, OCTOBER)
    narrower = re.search(r'href="([^"]*project=atlas[^"]*)"', html)
    assert narrower
    inside = html_of(admin, "/use/" + unescape(narrower[1]))
    assert "GPU-hours used 180.0 by 2 users" in texts(inside)
    a_day = re.search(r'<a href="([^"]*)">25 Oct</a>', inside)
    assert a_day
    hours = html_of(admin, "/use/" + unescape(a_day[1]))
    assert rows(hours, "by-time")["25 hours"][0] == "100.0"
    assert rows(hours, "by-time")["02:00 CEST"][0] == rows(hours, "by-time")["02:00 CET"][0] == "4.0"


def test_what_is_asked_wrongly_is_told_beside_the_field(admin: Client) -> None:
    fill()
    for query, word in (
        ("from=2026-10-05&to=2026-10-01", "before the first"),
        ("from=yesterday", "Write a day"),
        ("from=1900-01-01", "from 1970 on"),
        ("from=1990-01-01&to=2026-01-01", "at most twenty years"),
        ("group=colour", "Group by"),
        ("sort=colour", "no such column"),
        ("project=nobody", "no such project"),
        ("project=%00", "no such project"),
    ):
        assert word in html_of(admin, f"/use/?{query}", 400), query


def test_usual_range_is_the_last_week_with_use(admin: Client) -> None:
    fill()
    read = texts(html_of(admin, "/use/"))
    assert "19 to 25 Oct 2026 (169 h), Europe/Berlin" in read


def test_usual_range_is_this_week_when_something_ran(admin: Client) -> None:
    declare("atlas")
    yesterday = datetime.now(BERLIN) - timedelta(days=1)
    book(job("atlas", f"{yesterday:%Y-%m-%d} 00:30", 0.5, 8))
    assert '<a href="' in html_of(admin, "/use/").split("Last 7 days")[0][-400:]
    assert "GPU-hours used 4.0" in texts(html_of(admin, "/use/"))


def test_empty_books_say_what_to_do(admin: Client) -> None:
    assert "import_sacct FILE --cluster NAME" in texts(html_of(admin, "/use/"))


def test_a_range_without_use_leads_to_the_last_use(admin: Client) -> None:
    fill()
    html = html_of(admin, "/use/?from=2025-01-01&to=2025-01-31")
    assert "The last use ended on 25 Oct 2026." in texts(html)
    assert "from=2026-10-19&amp;to=2026-10-25" in html


def test_sorting_by_column(admin: Client) -> None:
    fill()
    html = html_of(admin, f"{OCTOBER}&sort=name")
    assert list(rows(html, "by-group"))[:3] == ["atlas", "lost no project", "vision"]
    assert 'aria-sort="ascending"' in html
    down = html_of(admin, f"{OCTOBER}&sort=-wait")
    assert next(iter(rows(down, "by-group"))) == "atlas"


def test_many_groups_fold_and_still_add_up(admin: Client) -> None:
    declare("atlas")
    book(*[job("atlas", "2026-10-02 08:00", 1, 1, user=f"user{n}") for n in range(60)])
    by_group = rows(html_of(admin, f"{OCTOBER}&group=user"), "by-group")
    assert len(by_group) == 52
    assert by_group["10 others"][1] == "10.0"
    assert by_group["60 users"][1] == "60.0"
    assert len(rows(html_of(admin, f"{OCTOBER}&group=user&all=1"), "by-group")) == 61


def test_links_of_tables_lead_to_the_same_figures(admin: Client) -> None:
    fill()
    for path in (OCTOBER, f"{OCTOBER}&project=atlas&group=user"):
        html = html_of(admin, path)
        found = [unescape(link) for link in re.findall(r'href="(/api/v1/reports/[^"]*)"', html)]
        assert len(found) == 9
        for link in found:
            response = admin.get(link)
            assert response.status_code == 200, link
            assert b"".join(response) if response.streaming else response.content
    answer = admin.get([link for link in found if "group_by=project%2Cuser" in link and "format" not in link][-1])
    assert "atlas" in json.dumps(answer.json()["rows"])


def test_no_script_or_style_stands_in_the_page(admin: Client) -> None:
    fill()
    for html in (html_of(admin, OCTOBER), html_of(Client(), "/login/"), html_of(admin, "/use/?from=x", 400)):
        scripts = re.findall(r"<script\b([^>]*)>(.*?)</script>", html, flags=re.S)
        assert all('type="application/json"' in attributes for attributes, body in scripts if body)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_names_from_outside_are_escaped(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8, user='<b x="</script>">'))
    html = html_of(admin, f"{OCTOBER}&group=user")
    assert "<b x=" not in html
    assert "</script>&quot;" not in html


def test_pages_ask_for_a_login_and_are_not_kept() -> None:
    declare("atlas")
    response = Client().get("/use/?from=2026-10-01")
    assert response.status_code == 302
    assert response["Location"] == "/login/?next=/use/%3Ffrom%3D2026-10-01"
    kept = signed_in(person("ada", admin=True)).get("/use/")
    assert "no-store" in kept["Cache-Control"]
    assert Client().get("/")["Location"] == "/use/"


@pytest.mark.parametrize("name", ["day", "month", "narrowed", "lead"])
def test_number_of_queries_stays_as_committed(name: str) -> None:
    fill()
    paths = {"day": "/use/?from=2026-10-02&to=2026-10-02", "narrowed": f"{OCTOBER}&project=atlas&group=user"}
    client = signed_in(person("lea", projects=("vision",)) if name == "lead" else person("ada", admin=True))
    path = paths.get(name, OCTOBER)
    client.get(path)
    with CaptureQueriesContext(connection) as found:
        client.get(path)
    asked = [query for query in found.captured_queries if not _frame(query["sql"])]
    committed: dict[str, Any] = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert len(asked) == committed[name]


def _frame(sql: str) -> bool:
    return sql.startswith(("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "SET "))

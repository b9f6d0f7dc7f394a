"""The page of all projects: its figures are the report's, its scope the caller's, its queries counted."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import actions, projector
from events.types.projects import ProjectDeclared
from tests.web.books import BERLIN, book, declare, job, person, signed_in

OCTOBER = "/projects/?from=2026-10-01&to=2026-10-31"
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
    assert "GPU-hours used 185.5 no use in September to compare with" in read  # 80 + 100 + 1.5 + 4
    assert "Jobs started 5 5 attempts ran" in read
    assert "Node-hours 39.5 1492 CPU-h" in read  # one node each; 64 x 10 + 32 x 25 + 8 x 1.5 + 16 x 2 + 8 CPU-h
    assert "Wait, median 30 s p95 10 min; 5 starts" in read
    assert "Cost 371 EUR without 8.0 CPU-h, which have no price" in read  # 185.5 x 2


def test_tables_hold_the_reports_figures_and_their_total(admin: Client) -> None:
    fill()
    html = html_of(admin, OCTOBER)
    by_group = rows(html, "by-group")
    # title, bar, GPU-h, share, node-h, users, jobs started, wait, cost, last use
    assert by_group["atlas"][2:] == ["180.0", "97.04", "35.0", "2", "2", "1 min", "360.00", "26 Oct"]
    assert by_group["vision"][2:] == ["1.5", "0.81", "2.5", "1", "2", "0 s", "3.00", "5 Oct"]
    assert by_group["lost no project"][2:] == ["4.0", "2.16", "2.0", "1", "1", "30 s", "8.00", "4 Oct"]
    assert by_group["3 projects"][2:] == ["185.5", "100.00", "39.5", "3", "5", "", "371.00", ""]
    by_day = rows(html, "by-time")
    assert by_day["25 Oct"][0] == "100.0"  # a day of 25 hours
    assert by_day["31 days"][0] == "185.5"
    assert "25 Oct has 25 hours." in texts(html)


def test_teams_hold_what_hangs_below_them(admin: Client) -> None:
    declare("atlas", "vision", rates={"h100": 2_000_000})
    for code, kind, parent in (("lab", "organisation", None), ("core", "team", "lab"), ("atlas", "project", "core"),
                               ("vision", "project", "core")):  # fmt: skip
        actions.say(ProjectDeclared(project=code, kind=kind, parent=parent), type_="project.declared", actor="test")
    book(
        job("atlas", "2026-10-02 08:00", 1, 8, user="ada", wait=120),
        job("vision", "2026-10-02 08:00", 2, 8, user="ada", wait=600),
        job("vision", "2026-10-02 08:00", 1, 4, user="ben", wait=60),
    )
    by_group = rows(html_of(admin, OCTOBER), "by-group")
    assert list(by_group) == ["lab organisation", "core team", "vision", "atlas", "2 projects"]
    for head in ("lab organisation", "core team"):
        assert by_group[head][2:9] == ["28.0", "100.00", "4.0", "2", "3", "2 min", "56.00"]  # of 60, 120 and 600 s
    assert by_group["vision"][2:6] == ["20.0", "71.43", "3.0", "2"]
    assert (by_group["vision"][7], by_group["atlas"][7]) == ("1 min", "2 min"), "of 60 and 600 s the lower"
    inside = html_of(admin, OCTOBER.replace("/projects/", "/projects/core/"))
    assert "Share of all used 100.00 % of 28.0 GPU-h" in texts(inside)
    assert "Projects / lab".replace(" / ", " ") in texts(inside)
    assert "8.0 GPU-h" not in texts(html_of(admin, OCTOBER.replace("/projects/", "/projects/atlas/"))).split("of")[0]


def test_lack_of_price_is_never_zero(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    html = html_of(admin, OCTOBER)
    assert "Cost no price for 8.0 GPU-h" in texts(html)
    assert "Some use has no price. h100: 8.0 GPU-h" in texts(html)
    assert rows(html, "by-group")["atlas"][8] == "no price"


def test_no_data_is_not_zero(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8), job("atlas", "2026-10-04 08:00", 1, 8))
    by_day = rows(html_of(admin, "/projects/?from=2026-10-01&to=2026-10-05"), "by-time")
    assert by_day["1 Oct"] == ["no data"] * 5
    assert by_day["3 Oct"] == ["0.0", "0.0", "0.0", "0", "0"]
    assert by_day["5 Oct"] == ["no data"] * 5


def test_long_empty_stretches_are_one_row_and_unknown(admin: Client) -> None:
    """Between two imports far apart nobody told anything: 6 to 24 October are no zeros."""
    fill()
    by_day = rows(html_of(admin, OCTOBER), "by-time")
    assert by_day["6 to 24 Oct 2026 19 days"] == ["no data"] * 5


def test_a_quiet_week_is_known_to_be_one(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8), job("atlas", "2026-10-10 08:00", 1, 8))
    by_day = rows(html_of(admin, "/projects/?from=2026-10-02&to=2026-10-10"), "by-time")
    assert by_day["3 to 9 Oct 2026 7 days"] == ["0.0", "0.0", "0.0", "0", "0"]


def test_a_lead_sees_only_the_granted_project() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    for group in ("project", "user", "account"):
        html = html_of(lead, f"{OCTOBER}&group={group}")
        assert "GPU-hours used 1.5" in texts(html)
        for foreign in ("atlas", "lost", "ada", "ben", "185.5"):
            assert foreign not in html
    for foreign in ("atlas", "unmapped/lost", "nobody"):
        html_of(lead, f"/projects/{foreign}/", 404)
        html_of(lead, f"/projects/{foreign}/usage.pdf", 404)


def test_a_lead_of_a_team_may_open_what_hangs_below_it() -> None:
    fill()
    for code, kind, parent in (("core", "team", None), ("vision", "project", "core")):
        actions.say(ProjectDeclared(project=code, kind=kind, parent=parent), type_="project.declared", actor="test")
    projector.catch_up()
    lead = signed_in(person("lea", projects=("core",)))
    assert list(rows(html_of(lead, OCTOBER), "by-group")) == ["core team", "vision", "1 project"]
    inside = html_of(lead, "/projects/vision/?from=2026-10-01&to=2026-10-31")
    assert "GPU-hours used 1.5" in texts(inside)
    assert "Share of all used" not in inside  # what others used is not theirs to see
    answer = lead.get("/api/v1/reports/usage?from=2026-10-01&to=2026-11-01&project=vision&group_by=user")
    assert [(row["user"], row["gpu_seconds"]) for row in answer.json()["rows"]] == [("cy", 5400)]
    foreign = lead.get("/api/v1/reports/usage?from=2026-10-01&to=2026-11-01&project=atlas")
    assert foreign.status_code == 400
    assert "no project 'atlas' that you may see" in foreign.content.decode()


def test_nobody_without_grant_sees_anything() -> None:
    fill()
    read = texts(html_of(signed_in(person("new")), "/projects/"))
    assert "None was granted yet" in read
    assert "atlas" not in read


def test_an_own_project_is_zero_on_days_on_which_others_ran() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    by_day = rows(html_of(lead, "/projects/?from=2026-10-02&to=2026-10-05"), "by-time")
    assert by_day["2 Oct"][0] == "0.0"


def test_narrowing_to_a_project_and_drilling_down(admin: Client) -> None:
    fill()
    html = html_of(admin, OCTOBER)
    narrower = re.search(r'href="(/projects/atlas/[^"]*)"', html)
    assert narrower
    inside = html_of(admin, unescape(narrower[1]))
    assert "GPU-hours used 180.0" in texts(inside)
    a_day = re.search(r'<a href="([^"]*)">25 Oct</a>', inside)
    assert a_day
    hours = html_of(admin, unescape(a_day[1]))
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
        ("group=run", "Group by"),
        ("as_known_at=99999999", "not in the log yet"),
        ("as_known_at=soon", "neither a date"),
    ):
        assert word in html_of(admin, f"/projects/?{query}", 400), query


def test_usual_range_is_the_last_month_with_use(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2025-10-02 08:00", 10, 8), job("atlas", "2025-03-02 08:00", 10, 8))
    read = texts(html_of(admin, "/projects/"))
    assert "3 Sep to 2 Oct 2025 (720 h), Europe/Berlin" in read


def test_usual_range_reaches_today_when_something_ran_lately(admin: Client) -> None:
    declare("atlas")
    yesterday = datetime.now(BERLIN) - timedelta(days=1)
    book(job("atlas", f"{yesterday:%Y-%m-%d} 00:30", 0.5, 8))
    assert "GPU-hours used 4.0" in texts(html_of(admin, "/projects/"))


def test_empty_books_say_what_to_do(admin: Client) -> None:
    assert "import_sacct FILE --cluster NAME" in texts(html_of(admin, "/projects/"))


def test_a_range_without_use_leads_to_the_last_use(admin: Client) -> None:
    fill()
    html = html_of(admin, "/projects/?from=2025-01-01&to=2025-01-31")
    assert "The last use ended on 26 Oct 2026." in texts(html)
    assert "from=2026-10-02&amp;to=2026-10-26" in html  # no earlier than the books begin


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
    for path, number in ((OCTOBER, 9), (OCTOBER.replace("/projects/", "/projects/atlas/") + "&group=run", 18)):
        html = html_of(admin, path)
        found = [unescape(link) for link in re.findall(r'href="(/api/v1/reports/[^"]*)"', html)]
        assert len(found) == number
        for link in found:
            response = admin.get(link)
            assert response.status_code == 200, link
            assert b"".join(response) if response.streaming else response.content
    [address] = [link for link in found if link.endswith("group_by=user&project=atlas")]
    assert admin.get(address).json()["total"]["gpu_seconds"] == 180 * 3600


def test_no_script_or_style_stands_in_the_page(admin: Client) -> None:
    fill()
    for html in (html_of(admin, OCTOBER), html_of(Client(), "/login/"), html_of(admin, "/projects/?from=x", 400)):
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
    response = Client().get("/projects/?from=2026-10-01")
    assert response.status_code == 302
    assert response["Location"] == "/login/?next=/projects/%3Ffrom%3D2026-10-01"
    kept = signed_in(person("ada", admin=True)).get("/projects/")
    assert "no-store" in kept["Cache-Control"]
    assert Client().get("/")["Location"] == "/login/?next=/"


def test_the_old_address_leads_here() -> None:
    moved = Client().get("/use/?project=unmapped/lost&from=2026-10-01&group=user")
    assert (moved.status_code, moved["Location"]) == (301, "/projects/unmapped/lost/?from=2026-10-01&group=user")
    assert Client().get("/use/")["Location"] == "/projects/"
    assert Client().get("/use/?project=%00")["Location"] == "/projects/"


@pytest.mark.parametrize("name", ["home", "day", "month", "project", "runs", "lead"])
def test_number_of_queries_stays_as_committed(name: str) -> None:
    fill()
    inside = OCTOBER.replace("/projects/", "/projects/atlas/")
    paths = {"home": "/", "day": "/projects/?from=2026-10-02&to=2026-10-02", "project": inside,
             "runs": f"{inside}&group=run"}  # fmt: skip
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

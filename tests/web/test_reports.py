"""Every report as a page: the figures of REST, links, totals, gaps, sorting, rights, and what is asked wrongly."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import reports
from events.access import Scope
from events.queries import head_position
from events.types.accounts import AssociationReported
from events.types.shares import FairshareConfigured
from tests.hand import tell
from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, words

OCTOBER = "from=2026-10-01&to=2026-10-31"
REST = "from=2026-10-01&to=2026-11-01"
COUNTS = Path(__file__).parent / "query_counts.json"
NUMERIC = re.compile(r"[^0-9.eE+-]")

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


@pytest.fixture(autouse=True)
def books(hall: Any) -> None:
    """October: 180 GPU-h of atlas (100 of them over the night of 25 hours), 17.5 of vision, 4 without project."""
    declare("atlas", "vision", rates={"h100": 2_000_000})
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, user="ada", wait=60, run="big", comment="run=big"),
        job("atlas", "2026-10-25 00:00", 25, 4, user="ben", wait=600),
        job("vision", "2026-10-03 09:30", 1.5, 1, user="cy", wait=0),
        job("vision", "2026-10-05 12:00", 2, 8, user="ben", wait=3600),
        job("stray", "2026-10-04 12:00", 2, 2, user="cy", wait=30),
        job("vision", "2026-10-06 12:00", 1, 0, user="cy", wait=30),
    )
    tell(
        AssociationReported("pod-a", "atlas", parent="root", shares=60),
        AssociationReported("pod-a", "vision", parent="root", shares=40),
        FairshareConfigured("pod-a", "2026-01-01", 604_800, mode="continuous", weights=("*=gpu:1000",)),
    )


# --- a page, parsed ----------------------------------------------------------------------------------------------


def block_of(html: str) -> str:
    return html.split('id="rows"', 1)[1].split("</table>", 1)[0]


def cells_of(row: str) -> list[tuple[str, str, str]]:
    """(text, title, datetime) of each cell of a row."""
    found = re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, flags=re.S)
    titles = [unescape("".join(re.findall(r'title="([^"]*)"', attributes))) for attributes, _ in found]
    whens = ["".join(re.findall(r'<time datetime="([^"]*)"', inside)) for _, inside in found]
    return [(words(inside), title, when) for (_, inside), title, when in zip(found, titles, whens, strict=True)]


def parsed(html: str) -> tuple[list[str], list[list[tuple[str, str, str]]], list[tuple[str, str, str]]]:
    """Names of the columns (by their sorting links), rows, and the total."""
    block = block_of(html)
    head, rest = block.split("</thead>", 1)
    names = [unescape(name).lstrip("-") for name in re.findall(r"[?&;]sort=(-?\w+)", head)]
    body, foot = rest.split("<tfoot>", 1)
    return names, [cells_of(row) for row in re.findall(r"<tr>(.*?)</tr>", body, flags=re.S)], cells_of(foot)


CAUSES = {"dependency_or_hold": "dependency or hold", "own_limit": "own limit", "own_share": "own share",
          "nodes_held": "nodes held", "rolled_back": "rolled back", "partial_gang": "partial gang",
          "restart": "restart after a fault", "timed_out": "ended at its limit"}  # fmt: skip
"""Causes that people know by other words than machines."""


def exact(cell: tuple[str, str, str]) -> Any:
    """The value that a cell stands for, from its title where it is rounded."""
    text, title, _ = cell
    if text in ("no data", "no price", "—"):
        return None
    told = (title or text).replace("\u202f", "").replace("\u2212", "-")
    return float(NUMERIC.sub("", told.split(" ")[0]))


def same(value: Any, cell: tuple[str, str, str], kind: str) -> bool:
    """Whether a cell says what REST says."""
    if kind == "time":
        return bool(cell[2] == value)
    if kind == "label":
        names = [value, value.removeprefix("unmapped/"), CAUSES.get(value, value)] if value else ["not named", "—"]
        return cell[0].removesuffix(" no project") in names
    value = value["amount"] if isinstance(value, dict) else value
    if value is None:
        return exact(cell) is None
    return bool(exact(cell) == pytest.approx(float(value), rel=1e-12))


GROUPINGS = ("", "project", "user,day", "month,cluster", "account", "week,project,user", "run", "branch", "hour,cause",
             "cause,project")  # fmt: skip


@pytest.mark.parametrize("name", reports.names())
def test_a_page_holds_the_rows_and_the_total_of_rest(admin: Client, name: str) -> None:
    known = reports.definition(name).groupings
    kept = {",".join(group for group in groups.split(",") if group in known) for groups in GROUPINGS}
    for group_by in sorted(kept):
        query = f"&group_by={group_by}" if group_by else ""
        html = html_of(admin, f"/reports/{name}/?{OCTOBER}{query}")
        answer = admin.get(f"/api/v1/reports/{name}?{REST}{query}").json()
        compare(html, answer)


def compare(html: str, answer: dict[str, Any]) -> None:
    """Rows in any order (pages sort them), the total, the position."""
    assert f"As of position {answer['as_of']['position']}" in words(html)
    columns = [one for one in answer["columns"] if not one["name"].endswith("_id")]
    measures = [one["name"] for one in columns if one["kind"] not in ("label", "time")]
    if "<tfoot>" not in html:
        assert "Nothing" in main_of(html)
        assert not any(told(row.get(each)) for row in (*answer["rows"], answer["total"]) for each in measures)
        return
    names, rows, foot = parsed(html)
    assert [one["name"] for one in columns] == names
    left = answer["rows"][:]
    assert min(len(left), 100) == len(rows)
    for row in rows:
        pairs = list(zip(columns, row, strict=True))
        mine = [one for one in left if all(same(one[c["name"]], cell, c["kind"]) for c, cell in pairs)]
        assert mine, (row, left)
        left.remove(mine[0])
    for column, cell in zip(columns, foot, strict=True):
        if column["name"] in answer["total"]:
            assert same(answer["total"][column["name"]], cell, column["kind"]), column
        elif column["kind"] not in ("label", "time"):
            assert cell[0] == ""


def told(value: Any) -> bool:
    return bool(float(value["amount"] or 0) if isinstance(value, dict) else value)


# --- figures by hand, order, links -------------------------------------------------------------------------------


def test_hours_are_shown_and_exact_seconds_are_behind_them(admin: Client) -> None:
    names, rows, foot = parsed(html_of(admin, f"/reports/usage/?{OCTOBER}"))
    at = names.index("gpu_seconds")
    # the largest first: 80 + 100 (a night of 25 hours), 1.5 + 16, 2 x 2
    assert [(row[0][0], row[at][:2]) for row in rows] == [
        ("atlas", ("180.0", "648\u202f000 GPU-s")), ("vision", ("17.5", "63\u202f000 GPU-s")),
        ("stray no project", ("4.0", "14\u202f400 GPU-s")),
    ]  # fmt: skip
    assert (foot[0][0], foot[at][:2]) == ("Total", ("201.5", "725\u202f400 GPU-s"))


def test_money_is_rounded_to_cents_and_what_has_no_price_says_so(admin: Client) -> None:
    html = html_of(admin, f"/reports/costs/?{OCTOBER}")
    _, rows, foot = parsed(html)
    assert [(row[0][0], row[1][0]) for row in rows] == [
        ("atlas", "360.00"), ("vision", "35.00"), ("stray no project", "8.00"),
    ]  # fmt: skip
    assert foot[1][0] == "403.00"  # 201.5 x 2
    read = main_of(html)
    assert "Cost, EUR" in read
    assert "Some of it is missing. cpu, 2026-10-06 to 2026-10-06, 8.0 CPU-h: no price on these days." in read
    assert "Publish a rate of that class" in read
    day = html_of(admin, "/reports/costs/?from=2026-10-06&to=2026-10-06")
    assert parsed(day)[1][0][1][0] == "no price"


def test_rows_sort_by_any_column_both_ways(admin: Client) -> None:
    def names(sort: str) -> list[str]:
        return [row[0][0] for row in parsed(html_of(admin, f"/reports/waits/?{OCTOBER}&sort={sort}"))[1]]

    # waits: atlas 60 + 600, vision 0 + 3600 + 30, stray 30; starts 2, 3, 1
    assert names("") == ["vision", "atlas", "stray no project"]
    assert names("wait_seconds") == ["stray no project", "atlas", "vision"]
    assert names("attempts_started") == ["stray no project", "atlas", "vision"]
    assert names("-project") == ["vision", "stray no project", "atlas"]
    html = html_of(admin, f"/reports/waits/?{OCTOBER}&sort=-project")
    assert block_of(html).count("aria-sort") == 1
    assert 'aria-sort="descending"' in block_of(html).split("</th>")[0]


def test_what_is_unknown_comes_last_whichever_way(admin: Client) -> None:
    # only use without GPU on the 6th: no price; on the 5th 16 GPU-hours at 2
    for sort in ("amount", "-amount"):
        rows = parsed(html_of(admin, f"/reports/costs/?from=2026-10-05&to=2026-10-06&group_by=day&sort={sort}"))[1]
        assert [(row[0][2], row[1][0]) for row in rows] == [("2026-10-05", "32.00"), ("2026-10-06", "no price")]


@pytest.mark.parametrize("name", reports.names())
def test_every_link_of_a_report_leads_somewhere(admin: Client, name: str) -> None:
    groups = [group for group in ("user", "week") if group in reports.definition(name).groupings]
    more = "&group_by=" + ",".join(groups) if groups else ""
    for query in (OCTOBER, OCTOBER + more):
        html = html_of(admin, f"/reports/{name}/?{query}")
        links = {unescape(link) for link in re.findall(r'href="(/[^"#]*)', html.split("<main", 1)[1])}
        for link in sorted(link for link in links if ".pdf" not in link):
            answer = admin.get(link)
            assert answer.status_code == 200, link
            assert b"".join(answer) if answer.streaming else answer.content


def count_of(client: Client, href: str) -> str:
    """How many rows a list says it has."""
    return str(re.findall(r"(\d+) attempts?", main_of(html_of(client, unescape(href))).split("Show", 1)[1])[0])


def test_figures_lead_to_the_attempts_they_are_made_of(admin: Client) -> None:
    for name, whole, parts in (("usage", "6", {"2", "3", "1"}), ("waits", "6", {"2", "3", "1"})):
        html = block_of(html_of(admin, f"/reports/{name}/?{OCTOBER}"))
        body, foot = html.split("<tfoot>")
        assert count_of(admin, re.findall(r'href="(/attempts/[^"]*)"', foot)[0]) == whole
        assert {count_of(admin, href) for href in re.findall(r'href="(/attempts/[^"]*)"', body)} == parts
    # what ran over the end of a window is in it: of 2 October only the first ten hours' job; none on the 3rd
    day = block_of(html_of(admin, "/reports/usage/?from=2026-10-02&to=2026-10-02&group_by=hour,user"))
    first = re.findall(r'href="(/attempts/[^"]*)"', day)[1]  # behind the user's own
    assert "start_to=2026-10-02T07:00:00Z" in first
    assert count_of(admin, first) == "1"


def test_names_lead_to_their_pages_and_days_to_their_hours(admin: Client) -> None:
    runs = block_of(html_of(admin, f"/reports/usage/?{OCTOBER}&group_by=run,project,user"))
    assert re.search(r'<th scope="row"><a href="/runs/[0-9a-f-]{36}/">big</a></th>', runs)
    assert '<a href="/projects/atlas/?from=2026-10-01&amp;to=2026-10-31">atlas</a>' in runs
    assert re.search(r'<a href="/attempts/\?user=ada&amp;[^"]*">ada</a>', runs)
    assert "run_id" not in runs
    days = block_of(html_of(admin, f"/reports/usage/?{OCTOBER}&group_by=day"))
    assert "/reports/usage/?from=2026-10-02&amp;to=2026-10-02&amp;group_by=hour" in days
    weeks = block_of(html_of(admin, f"/reports/usage/?{OCTOBER}&group_by=week"))
    assert "/reports/usage/?from=2026-10-05&amp;to=2026-10-11&amp;group_by=day" in weeks


def test_a_chart_says_what_the_table_says(admin: Client) -> None:
    html = html_of(admin, f"/reports/usage/?{OCTOBER}&group_by=user,project")
    spec = json.loads(html.partition('id="spec" type="application/json">')[2].partition("</script>")[0])
    values = {(row["x"], row["n"]): row["v"] for row in spec["layer"][0]["data"]["values"]}
    assert values == {("ben", "atlas"): 100.0, ("ada", "atlas"): 80.0, ("ben", "vision"): 16.0, ("cy", "vision"): 1.5,
                      ("cy", "stray"): 4.0}  # fmt: skip
    assert "GPU-hours by user, by project" in main_of(html)
    assert "atlas 180.0 vision 17.5 stray 4.0" in main_of(html)
    daily = html_of(admin, f"/reports/costs/?{OCTOBER}&group_by=day")
    spec = json.loads(daily.partition('id="spec" type="application/json">')[2].partition("</script>")[0])
    assert len(spec["encoding"]["x"]["scale"]["domain"]) == 31
    amounts = {row["x"]: row["v"] for row in spec["layer"][0]["data"]["values"]}
    assert amounts["2 Oct 2026"] == 160.0
    assert sum(amounts.values()) == pytest.approx(403)
    assert 'data-chart="spec"' not in html_of(admin, f"/reports/usage/?{OCTOBER}&group_by=branch,user")


def test_many_rows_come_in_pages_and_the_total_is_of_all(admin: Client) -> None:
    book(*[job("atlas", "2026-09-02 08:00", 1, 1, user=f"w{n:03d}") for n in range(120)])
    query = "from=2026-09-01&to=2026-09-30&group_by=user&sort=user"
    html = html_of(admin, f"/reports/usage/?{query}")
    assert [row[0][0] for row in parsed(html)[1]] == [f"w{n:03d}" for n in range(100)]
    assert "Rows 1 to 100 of 120" in main_of(html)
    [after] = re.findall(r'href="([^"#]*)#rows" rel="next"', html)
    second = html_of(admin, unescape(after))
    assert [row[0][0] for row in parsed(second)[1]] == [f"w{n:03d}" for n in range(100, 120)]
    assert parsed(second)[2] == parsed(html)[2]
    assert main_of(html_of(admin, f"/reports/usage/?{query}&page=3", 400)).count("The last page is 2.") == 1


def test_another_zone_a_project_and_an_earlier_position(admin: Client) -> None:
    zone = f"/reports/usage/?{OCTOBER}&timezone=Asia/Tokyo&group_by=day&project=vision"
    rest = f"/api/v1/reports/usage?{REST}&timezone=Asia/Tokyo&group_by=day&project=vision"
    compare(html_of(admin, zone), admin.get(rest).json())
    earlier = head_position()
    book(job("atlas", "2026-10-20 08:00", 1, 12, user="ada"))
    assert parsed(html_of(admin, f"/reports/usage/?{OCTOBER}"))[2][1][0] == "213.5"
    for name in reports.names():
        html = html_of(admin, f"/reports/{name}/?{OCTOBER}&as_known_at={earlier}")
        assert f"As known at {earlier}." in main_of(html)
        assert "/attempts/" not in html.split('id="rows"')[1].split("<tfoot>")[-1], "lists are of now"
        compare(html, admin.get(f"/api/v1/reports/{name}?{REST}&as_known_at={earlier}").json())


# --- rights, what is wrong, what is not there --------------------------------------------------------------------


def test_who_sees_what(admin: Client, monkeypatch: Any) -> None:
    lead, nobody = signed_in(person("lea", projects=("vision",))), signed_in(person("nob"))
    listed = main_of(html_of(lead, "/reports/"))
    for name in reports.names():
        definition = reports.definition(name)
        assert definition.title in listed
        assert definition.about.endswith("?")
        html = html_of(lead, f"/reports/{name}/?{OCTOBER}&group_by={definition.default[0]}")
        assert not {"atlas", "stray", "ada"} & set(re.findall(r"\w+", html.split("<main")[1])), name
        compare(html, lead.get(f"/api/v1/reports/{name}?{REST}&group_by={definition.default[0]}").json())
        assert "Nothing that you may see" in main_of(html_of(nobody, f"/reports/{name}/")), name
        assert Client().get(f"/reports/{name}/").status_code == 302
    refused = main_of(html_of(lead, f"/reports/usage/?{OCTOBER}&project=atlas", 400))
    assert "There is no project 'atlas' that you may see." in refused
    team = block_of(html_of(lead, f"/reports/usage/?{OCTOBER}&group_by=project"))
    assert "17.5" in team
    monkeypatch.setattr("web.reports.scope_of", lambda _: Scope(None, money=False))
    for path in ("/reports/costs/", "/reports/costs.pdf"):
        assert "It shows money, which you may not see." in words(html_of(admin, path, 403))
    assert "It shows money, which you may not see." in main_of(html_of(admin, "/reports/"))
    assert 'href="/reports/costs/"' not in html_of(admin, "/reports/")


WRONG = (
    ("from=x", "Write a day as 2026-11-30."), ("from=2026-10-05&to=2026-10-01", "The last day lies before the first"),
    ("group_by=colour", "'colour' is not a grouping of usage; there are project"),
    ("group_by=day,week", "Give at most one of hour, day"), ("group_by=project,user,account,day", "Choose at most 3"),
    ("timezone=Mars", "'Mars' is not in the tz database"), ("as_known_at=999999", "is not in the log yet"),
    ("as_known_at=yesterday", "is neither a date"), ("view=cost", "'cost' is not a view of usage"),
    ("project=none", "There is no project 'none'"), ("sort=colour", "The table has no such column."),
    ("page=0", "Pages are counted from 1."), ("page=9", "The last page is 1."), ("page=x", "Pages are counted"),
    ("colour=red", "There is no parameter 'colour' here"), ("project=a%00b", "Write at most 200"),
    ("from=2020-01-01&to=2026-10-31&group_by=hour", "By hour at most 800 days"),
)  # fmt: skip


def test_what_cannot_be_shown_is_told_beside_its_field(admin: Client) -> None:
    for query, text in WRONG:
        given = query if query.startswith("from") else f"{OCTOBER}&{query}"
        html = html_of(admin, f"/reports/usage/?{given}", 400)
        assert text in main_of(html), query
        assert "<tfoot>" not in html, query
        assert 'role="alert"' in html
    assert admin.get("/reports/nothing/").status_code == 404
    assert admin.get("/reports/nothing.pdf").status_code == 404


def test_nothing_there_says_what_to_do(admin: Client) -> None:
    empty = main_of(html_of(admin, "/reports/usage/?from=2025-10-01&to=2025-10-31"))
    assert "Nothing in these days The last use ended on 26 Oct 2026." in empty
    [way] = re.findall(
        r'class="btn do" href="([^"]*)"', html_of(admin, "/reports/usage/?from=2025-10-01&to=2025-10-31")
    )
    assert "<tfoot>" in html_of(admin, unescape(way))


def test_the_menu_and_the_page_of_a_project_lead_to_reports(admin: Client) -> None:
    html = html_of(admin, f"/projects/vision/?{OCTOBER}")
    assert '<a href="/reports/">Reports</a>' in html
    links = [unescape(link) for link in re.findall(r'href="(/reports/[a-z-]+/\?[^"]*)"', html)]
    assert {link.split("/")[2] for link in links} == set(reports.names())
    assert all("project=vision" in link and OCTOBER in link for link in links)


def test_query_counts_are_the_committed_ones(admin: Client) -> None:
    committed: dict[str, Any] = json.loads(COUNTS.read_text(encoding="utf-8"))
    frame = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "SET ")
    found = {}
    for name in ("index", "usage", "waits", "costs"):
        path = "/reports/" if name == "index" else f"/reports/{name}/?{OCTOBER}"
        admin.get(path)
        with CaptureQueriesContext(connection) as captured:
            admin.get(path)
        asked = [query["sql"] for query in captured.captured_queries if not query["sql"].startswith(frame)]
        found[f"report-{name}"] = len(asked)
    assert found == {name: committed.get(name) for name in found}

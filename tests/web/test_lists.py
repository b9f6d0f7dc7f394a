"""Lists: filters, order, pages, counts, exports, what is wrong, what is empty, and who sees what."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import paging
from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, words
from web import lists

COUNTS = Path(__file__).parent / "query_counts.json"
pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """Six jobs: four of atlas on 2 to 5 October, one of vision on 25 October, one of an account without project."""
    declare("atlas", "vision")
    book(
        *[job("atlas", f"2026-10-0{day} 08:00", 1, 8 * day, user="ben", name=f"day{day}") for day in range(2, 6)],
        job("vision", "2026-10-25 00:30", 4, 1, user="cai", state="FAILED", exit_code=1),
        job("strays", "2026-10-06 08:00", 2, 0, user="dan", state="TIMEOUT"),
    )


def rows(html: str) -> list[list[str]]:
    """Cells of the list's rows as words."""
    body = html.split('id="rows"', 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    found = re.findall(r"<tr>(.*?)</tr>", body, flags=re.S)
    return [[words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S)] for row in found]


def column(html: str, head: str) -> list[str]:
    heads = [words(each) for each in re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html, flags=re.S)]
    return [row[heads.index(head)] for row in rows(html)]


def links(html: str, text: str) -> list[str]:
    return [unescape(href) for href in re.findall(rf'<a[^>]*href="([^"]*)"[^>]*>{re.escape(text)}</a>', html)]


@pytest.mark.parametrize("path", ["/runs/", "/jobs/", "/attempts/"])
def test_every_list_shows_its_rows_newest_first(admin: Client, path: str) -> None:
    fill()
    html = html_of(admin, path)
    assert column(html, "Project") == ["vision", "strays no project", "atlas", "atlas", "atlas", "atlas"]
    assert column(html, "User") == ["cai", "dan", "ben", "ben", "ben", "ben"]
    assert column(html, "State") == ["failed", "timed out"] + ["completed"] * 4
    # 1 x 4 h, 0 x 2 h, then 40, 32, 24 and 16 GPUs for one hour
    assert column(html, "GPU-h") == ["4.0", "0.0", "40.0", "32.0", "24.0", "16.0"]
    assert f"6 {path.strip('/')}" in main_of(html)


@pytest.mark.parametrize(
    ("query", "gpu_hours"),
    [
        ("project=atlas", ["40.0", "32.0", "24.0", "16.0"]), ("project=unmapped/strays", ["0.0"]),
        ("user=cai", ["4.0"]),
        ("state=FAILED,TIMEOUT", ["4.0", "0.0"]), ("start_from=2026-10-05&start_to=2026-10-25", ["0.0", "40.0"]),
        ("start_from=2026-10-25", ["4.0"]), ("start_to=2026-10-25&start_from=2026-10-06", ["0.0"]),
        ("ordering=start&project=atlas", ["16.0", "24.0", "32.0", "40.0"]),
        ("account=vision&cluster=pod-a", ["4.0"]), ("cluster=pod-b", []), ("lost=true", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/runs/", "/jobs/", "/attempts/"])
def test_filters_narrow_and_the_files_hold_the_same(admin: Client, path: str, query: str, gpu_hours: list[str]) -> None:
    fill()
    html = html_of(admin, f"{path}?{query}")
    if not gpu_hours:
        assert "with these filters" in main_of(html)
        return
    assert column(html, "GPU-h") == gpu_hours
    (address,) = links(html, "CSV")
    table = list(csv.DictReader(io.StringIO(admin.get(address).getvalue().decode())))
    assert [int(row["gpu_seconds"]) for row in table] == [round(float(hours) * 3600) for hours in gpu_hours]
    (address,) = links(html, "API")
    assert [row["gpu_seconds"] for row in admin.get(address).json()["results"]] == [
        int(row["gpu_seconds"]) for row in table
    ]


def test_heads_sort_and_say_so(admin: Client) -> None:
    fill()
    html = html_of(admin, "/runs/")
    assert re.findall(r'<th scope="col"[^>]*aria-sort="(\w+)"[^>]*><a[^>]*>([^<]*)', html) == [
        ("descending", "Submitted")
    ]
    (by_size,) = links(html, "GPU-h")
    html = html_of(admin, f"/runs/{by_size}")
    assert column(html, "GPU-h") == ["40.0", "32.0", "24.0", "16.0", "4.0", "0.0"]
    (upwards,) = links(html, "GPU-h")
    assert column(html_of(admin, f"/runs/{upwards}"), "GPU-h") == ["0.0", "4.0", "16.0", "24.0", "32.0", "40.0"]


@pytest.mark.parametrize("ordering", ["-submit", "submit", "-end", "gpus", "attempts"])
def test_pages_show_every_row_once_forwards_and_back(
    admin: Client, monkeypatch: pytest.MonkeyPatch, ordering: str
) -> None:
    fill()
    monkeypatch.setattr(lists, "PAGE", 4)
    first = html_of(admin, f"/runs/?ordering={ordering}")
    (following,) = links(first, "Next")
    second = html_of(admin, f"/runs/{following}")
    assert [len(rows(first)), len(rows(second))] == [4, 2]
    assert len({row[0] for row in rows(first) + rows(second)}) == 6
    assert links(second, "Next") == []
    (back,) = links(second, "Previous")
    again = html_of(admin, f"/runs/{back}")
    assert rows(again) == rows(first)
    assert links(again, "Previous") == []
    assert "6 runs" in main_of(second)


def test_the_next_page_keeps_filters_and_a_filter_starts_anew(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    monkeypatch.setattr(lists, "PAGE", 3)
    html = html_of(admin, "/jobs/?project=atlas&ordering=start")
    (following,) = links(html, "Next")
    asked = parse_qs(urlsplit(following).query)
    assert (asked["project"], asked["ordering"]) == (["atlas"], ["start"])
    html = html_of(admin, f"/jobs/{following}")
    assert column(html, "GPU-h") == ["40.0"]
    assert "cursor" not in parse_qs(urlsplit(links(html, "remove")[0]).query)


def test_counting_stops_where_it_says_so(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    monkeypatch.setattr(paging, "COUNT_EXACT", 2)
    monkeypatch.setattr(lists, "PAGE", 3)
    assert "more than 2 runs" in main_of(html_of(admin, "/runs/"))


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("start_from=yesterday", "start_from", "Write a day as 2026-11-30 or a time as 2026-11-30T10:00:00Z."),
        ("start_from=2026-02-30", "start_from", "Write a day as 2026-11-30"),
        ("gpus_from=many", "gpus_from", "Enter a number."),
        ("submit_to=0001-01-01T00:00:00%2B14:00", "submit_to", "out of range"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(admin: Client, query: str, field: str, message: str) -> None:
    fill()
    html = html_of(admin, f"/runs/?{query}&project=atlas", 400)
    given = re.search(rf'<input id="f-{field}"[^>]*aria-describedby="e-{field}"[^>]*>', html)
    assert given
    assert 'aria-invalid="true"' in given[0]
    assert message in words(re.search(rf'id="e-{field}">(.*?)</span>', html)[1])  # type: ignore[index]
    assert "This can not be shown." in main_of(html)
    assert 'id="rows"' not in html
    assert '<option value="atlas" selected>' in html


@pytest.mark.parametrize("query", ["colour=red", "ordering=secret", "cursor=x", "cursor=e30=", "fields=id"])
def test_what_no_field_shows_is_named_too(admin: Client, query: str) -> None:
    fill()
    html = html_of(admin, f"/jobs/?{query}", 400)
    assert f"<code>{query.partition('=')[0]}</code>" in html
    assert 'id="rows"' not in html


@pytest.mark.parametrize(
    "query", ["user=%00", "job_id=%00x", "run=1", "state=%00", "gpus_from=1e400", "gpus_from=9e99"]
)
def test_odd_values_never_break_a_page(admin: Client, query: str) -> None:
    fill()
    assert admin.get(f"/jobs/?{query}").status_code in (200, 400)


def test_filters_in_use_can_be_removed_one_by_one(admin: Client) -> None:
    fill()
    html = html_of(admin, "/runs/?project=atlas&state=COMPLETED,FAILED&gpus_from=16")
    chips = re.search(r'<ul class="chips".*?</ul>', html, flags=re.S)
    assert chips
    assert words(chips[0]) == (
        "Project and below atlas remove State completed, failed remove GPUs, at least 16 remove Remove all"
    )
    assert [sorted(parse_qs(urlsplit(href).query)) for href in links(chips[0], "remove")] == [
        ["gpus_from", "state"], ["gpus_from", "project"], ["project", "state"]
    ]  # fmt: skip
    assert '<details class="morefilters" open>' in html  # what is in use is not hidden


def test_views_are_one_click_away(admin: Client) -> None:
    fill()
    html = html_of(admin, "/attempts/")
    (failed,) = links(html, "Failed")
    html = html_of(admin, f"/attempts/{failed}")
    assert column(html, "User") == ["cai"]
    assert re.search(r'aria-current="true">Failed<', html)


def test_empty_books_say_what_to_do(admin: Client) -> None:
    declare("atlas")
    assert "import_sacct FILE" in main_of(html_of(admin, "/jobs/"))
    assert 'sbatch --comment "run=NAME"' in main_of(html_of(admin, "/runs/"))
    assert "as soon as a scheduler reports" in main_of(html_of(admin, "/attempts/"))


@pytest.mark.parametrize("path", ["/runs/", "/jobs/", "/attempts/"])
def test_a_lead_sees_the_granted_project_only(path: str) -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    html = html_of(lead, path)
    assert column(html, "Project") == ["vision"]
    for foreign in ("atlas", "strays", "ben", "dan"):
        assert foreign not in html
    for query in ("project=atlas", "user=ben", "account=strays"):
        assert "with these filters" in main_of(html_of(lead, f"{path}?{query}"))
    (address,) = links(html, "CSV")
    assert lead.get(address).getvalue().decode().count("\r\n") == 2
    assert len(lead.get(links(html, "API")[0]).json()["results"]) == 1


def test_nobody_without_grant_sees_a_row() -> None:
    fill()
    html = html_of(signed_in(person("new")), "/jobs/")
    assert "No job yet" in main_of(html)
    assert "atlas" not in html


def test_lists_ask_for_a_login_and_are_not_kept(admin: Client) -> None:
    fill()
    for path in ("/runs/", "/jobs/", "/attempts/"):
        assert Client().get(path)["Location"] == f"/login/?next={path}"
        assert "no-store" in admin.get(path)["Cache-Control"]
        assert admin.post(path).status_code == 405


def test_names_from_outside_are_escaped(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8, user='<b x="">', name="<i>&", run='"><u>', partition="<s>"))
    for path in ("/runs/", "/jobs/", "/attempts/?user=%3Cb%20x%3D%22%22%3E"):
        html = html_of(admin, path)
        for bad in ("<b x", "<i>", "<u>", "<s>"):
            assert bad not in html


def test_no_script_or_style_stands_in_a_list(admin: Client) -> None:
    fill()
    for html in (html_of(admin, "/runs/"), html_of(admin, "/jobs/?x=1", 400)):
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


@pytest.mark.parametrize("name", ["runs", "jobs", "attempts", "jobs-lead", "runs-project"])
def test_number_of_queries_stays_as_committed(name: str) -> None:
    fill()
    paths = {"jobs-lead": "/jobs/", "runs-project": "/runs/?project=atlas&ordering=-gpus"}
    client = signed_in(person("lea", projects=("vision",)) if name == "jobs-lead" else person("ada", admin=True))
    path = paths.get(name, f"/{name}/")
    client.get(path)
    with CaptureQueriesContext(connection) as found:
        client.get(path)
    frame = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "SET ")
    asked = [query["sql"] for query in found.captured_queries if not query["sql"].startswith(frame)]
    committed: dict[str, Any] = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert len(asked) == committed[f"list-{name}"], asked

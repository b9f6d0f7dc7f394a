"""The page of one project: runs, waits by size, the range before, earlier positions; by hand and as REST gives them."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from events import actions, projector
from events.queries import head_position
from events.types.projects import AccountMapped
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words

ATLAS = "/projects/atlas/?from=2026-10-01&to=2026-10-31"

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """October: one named run of two jobs, a large job, one without GPU; September: less. Another project beside it."""
    declare("atlas", "vision")
    book(
        job("atlas", "2026-09-10 08:00", 5, 8, user="ada"),
        job("atlas", "2026-10-02 08:00", 10, 8, user="ada", wait=60, run="big", comment="run=big"),
        job("atlas", "2026-10-03 08:00", 5, 8, user="ada", wait=120, run="big", comment="run=big"),
        job("atlas", "2026-10-04 08:00", 1, 64, user="ben", wait=3600, job_id="777"),
        job("atlas", "2026-10-05 08:00", 2, 0, user="ben", wait=0, job_id="778"),
        job("atlas", "2026-10-31 23:00", 2, 4, user="cy", wait=30, job_id="779"),
        job("vision", "2026-10-06 08:00", 1, 16, user="dee"),
    )


def test_key_figures_against_the_month_before_and_the_hall(admin: Client) -> None:
    fill()
    read = main_of(html_of(admin, ATLAS))
    # 80 + 40 + 64 + 4 (an hour of the last job lies in November) = 188; September 40: 370 % more; 16 of vision
    assert "GPU-hours used 188.0 370.0 % on September" in read
    assert "Share of all used 92.16 % of 204.0 GPU-h" in read
    assert "Wait, median 1 min p95 1 h 00 min; 5 starts" in read
    assert "Jobs started 5 5 attempts ran" in read


def test_runs_add_up_to_what_was_used(admin: Client) -> None:
    fill()
    html = html_of(admin, ATLAS)
    # run, user, state, GPUs, attempts, GPU-h, share, node-h
    assert table(html, "Runs") == [
        ["big", "ada", "completed", "8", "2", "120.0", "63.83", "15.0"],
        ["pod-a/777", "ben", "completed", "64", "1", "64.0", "34.04", "8.0"],
        ["pod-a/779", "cy", "completed", "4", "1", "4.0", "2.13", "1.0"],
        ["pod-a/778", "ben", "completed", "0", "1", "0.0", "0.00", "2.0"],
    ]
    foot = html.split('id="runs"')[1].split("<tfoot>")[1].split("</tfoot>")[0]
    assert re.findall(r">([^<]+)<", foot) == ["4 runs", "5", "188.0", "100.00", "26.0"]
    links = re.findall(r'href="(/runs/[^"]+)"', html.split('id="runs"')[1].split("</table>")[0])
    assert len(links) == 4
    assert all(admin.get(link).status_code == 200 for link in links)


def test_runs_of_the_table_are_those_of_rest(admin: Client) -> None:
    fill()
    html = html_of(admin, ATLAS)
    [address] = re.findall(r'href="([^"]*)" aria-label="API: Runs"', html)
    answer = admin.get(unescape(address)).json()
    assert answer["total"]["gpu_seconds"] == 188 * 3600
    found = {row["run"]: row["gpu_seconds"] for row in answer["rows"]}
    assert found == {"big": 120 * 3600, "pod-a/777": 64 * 3600, "pod-a/779": 4 * 3600, "pod-a/778": 0}
    assert {row["run_id"] for row in answer["rows"]} == set(re.findall(r'"/runs/([0-9a-f-]{36})/"', html))


def test_chart_by_run_puts_the_small_ones_together(admin: Client) -> None:
    declare("atlas")
    sizes = (64, 32, 16, 8, 4, 2, 1)
    book(*[job("atlas", "2026-10-02 08:00", 1, gpus, job_id=str(900 + gpus)) for gpus in sizes])
    legend = main_of(html_of(admin, ATLAS + "&group=run")).split("by run", 1)[1].split("The chart needs")[0]
    assert "pod-a/964 64.0 pod-a/932 32.0 pod-a/916 16.0 pod-a/908 8.0 pod-a/904 4.0 2 others 3.0" in legend


def test_waits_by_how_many_gpus_were_asked(admin: Client) -> None:
    fill()
    # GPUs asked, starts, median, p90, longest
    assert table(html_of(admin, ATLAS), "Waits") == [
        ["8 or fewer", "3", "1 min", "2 min", "2 min"],
        ["33 to 128", "1", "1 h 00 min", "1 h 00 min", "1 h 00 min"],
        ["no GPU", "1", "0 s", "0 s", "0 s"],
    ]
    answer = admin.get("/api/v1/reports/waits?from=2026-10-01&to=2026-11-01&group_by=size&project=atlas").json()
    assert [(row["size"], row["attempts_started"]) for row in answer["rows"]] == [("0", 1), ("1-8", 3), ("33-128", 1)]
    assert answer["total"]["wait_seconds"] == 60 + 120 + 3600 + 0 + 30


def test_an_account_that_moved_counts_for_each_project_on_its_days(admin: Client) -> None:
    """One job over the midnight on which its account changed hands: 10 h before it, 14 h after it, 8 GPUs."""
    declare("atlas", "vision")
    book(job("atlas", "2026-10-10 14:00", 24, 8, user="ada", job_id="555"))
    moved = AccountMapped(cluster="pod-a", account="atlas", from_day="2026-10-11", project="vision")
    actions.say(moved, type_="account.mapped", actor="test")
    projector.catch_up()
    for project, gpu_hours, attempts in (("atlas", "80.0", "1"), ("vision", "112.0", "0")):
        html = html_of(admin, ATLAS.replace("atlas", project))
        [run] = table(html, "Runs")
        assert (run[0], run[4], run[5]) == ("pod-a/555", attempts, gpu_hours)
        assert f"GPU-hours used {gpu_hours}" in main_of(html)


def test_an_account_without_project_has_a_page_until_it_is_mapped(admin: Client) -> None:
    declare("atlas")
    book(job("stray", "2026-10-10 08:00", 2, 8, user="ada", job_id="556"))
    page = "/projects/unmapped/stray/?from=2026-10-01&to=2026-10-31"
    html = html_of(admin, page)
    assert "Account stray" in main_of(html)
    assert table(html, "Runs")[0][:6] == ["pod-a/556", "ada", "completed", "8", "1", "16.0"]
    mapped = AccountMapped(cluster="pod-a", account="stray", from_day="2026-10-11", project="atlas")
    actions.say(mapped, type_="account.mapped", actor="test")
    projector.catch_up()
    assert table(html_of(admin, page), "Runs")[0][5] == "16.0"


def test_as_the_log_knew_it_at_an_earlier_position(admin: Client) -> None:
    fill()
    earlier = head_position()
    book(job("atlas", "2026-10-20 08:00", 1, 12, user="ada"))
    assert "GPU-hours used 200.0" in main_of(html_of(admin, ATLAS))
    html = html_of(admin, f"{ATLAS}&as_known_at={earlier}")
    read = main_of(html)
    assert "GPU-hours used 188.0" in read
    assert f"As known at {earlier}." in read
    assert f"As of position {earlier}" in words(html)
    [address] = re.findall(r'href="([^"]*)" aria-label="API: Runs"', html)
    assert admin.get(unescape(address)).json()["total"]["gpu_seconds"] == 188 * 3600


def test_every_link_of_a_page_leads_somewhere(admin: Client) -> None:
    fill()
    html = html_of(admin, ATLAS)
    links = {unescape(link) for link in re.findall(r'href="(/[^"#]*)', html.split("<main", 1)[1])}
    assert len(links) > 30
    for link in sorted(links):
        response = admin.get(link)
        assert response.status_code == 200, link
        assert b"".join(response) if response.streaming else response.content


def test_an_attempt_that_was_resized_inside_the_range_counts_once(admin: Client) -> None:
    """16 GPUs for an hour, then 8 for two: 32 GPU-hours of one attempt, on the tile as in the table of runs."""
    declare("atlas")
    shrunk = at("2026-10-10 09:00")
    book(
        job("atlas", "2026-10-10 08:00", 1, 16, job_id="900", state="RESIZING", record=1),
        job("atlas", "2026-10-10 08:00", 3, 8, job_id="900", record=2, submit=shrunk, eligible=shrunk),
    )
    read = main_of(html_of(admin, ATLAS))
    assert "GPU-hours used 32.0" in read
    assert "1 attempt ran" in read or "1 attempts ran" in read
    assert "1 run 1 32.0 100.00" in read

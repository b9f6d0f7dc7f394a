"""Reports as files: what they stand on, their total, one project, runs, sizes and branches."""

from __future__ import annotations

import csv
import io
from typing import Any

import openpyxl
import pytest
from django.test import Client

from api.tables import cell
from events import actions
from events.types.projects import ProjectDeclared
from tests.web.books import book, declare, job, person, signed_in

OCTOBER = "from=2026-10-01&to=2026-11-01"

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """A team of two projects: 8 and 28 GPU-hours at 1 cent and a third of one."""
    declare("atlas", "vision", rates={"h100": 13_333})
    for code, kind, parent in (("core", "team", None), ("atlas", "project", "core"), ("vision", "project", "core")):
        actions.say(ProjectDeclared(project=code, kind=kind, parent=parent), type_="project.declared", actor="test")
    book(
        job("atlas", "2026-10-02 08:00", 1, 8, user="ada", job_id="901"),
        job("vision", "2026-10-03 08:00", 3, 8, user="ben", run="sweep"),
        job("vision", "2026-10-04 08:00", 1, 4, user="ben", run="sweep"),
    )


def rows_of(client: Client, query: str) -> list[dict[str, str]]:
    text = b"".join(client.get(f"/api/v1/reports/{query}")).decode()  # type: ignore[arg-type]
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_is_rows_alone_and_says_what_it_stands_on_in_its_head(admin: Client) -> None:
    fill()
    answer = admin.get(f"/api/v1/reports/usage?{OCTOBER}&format=csv")
    position = admin.get(f"/api/v1/reports/usage?{OCTOBER}").json()["as_of"]["position"]
    assert answer["X-Hallbook-Position"] == str(position)
    assert answer["X-Hallbook-Time"].endswith("+00:00")
    b"".join(answer)  # type: ignore[arg-type]
    assert [row["project"] for row in rows_of(admin, f"usage?{OCTOBER}&format=csv")] == ["atlas", "vision"]


def test_csv_ends_with_the_total_when_asked(admin: Client) -> None:
    fill()
    *_, last = rows_of(admin, f"usage?{OCTOBER}&format=csv&total=1")
    assert (last["project"], last["gpu_seconds"], last["attempts_started"]) == ("total", str(36 * 3600), "3")
    assert admin.get(f"/api/v1/reports/usage?{OCTOBER}&total=yes").status_code == 400


def test_a_workbook_has_a_total_and_a_sheet_of_what_it_stands_on(admin: Client) -> None:
    fill()
    content = b"".join(admin.get(f"/api/v1/reports/costs?{OCTOBER}&format=xlsx&project=vision"))  # type: ignore[arg-type]
    found = openpyxl.load_workbook(io.BytesIO(content))
    assert found.sheetnames == ["costs", "As of"]
    *_, last = found["costs"].iter_rows(values_only=True)
    assert last[:4] == ("total", pytest.approx(0.37), "EUR", 28 * 3600)  # 28 x 0.013333 EUR
    about = dict(found["As of"].iter_rows(values_only=True))
    assert about["report"] == "costs"
    assert about["project"] == "vision"
    assert about["from"] == "2026-09-30T22:00:00Z"
    assert about["position"] == admin.get(f"/api/v1/reports/costs?{OCTOBER}").json()["as_of"]["position"]


def test_runs_are_named_and_keep_their_key(admin: Client) -> None:
    fill()
    answer = admin.get(f"/api/v1/reports/usage?{OCTOBER}&group_by=run").json()
    assert [(row["run"], row["gpu_seconds"], row["attempts"]) for row in answer["rows"]] == [
        ("pod-a/901", 8 * 3600, 1), ("sweep", 28 * 3600, 2),
    ]  # fmt: skip
    assert answer["total"]["gpu_seconds"] == 36 * 3600
    assert len({row["run_id"] for row in answer["rows"]}) == 2
    by_day = admin.get(f"/api/v1/reports/usage?{OCTOBER}&group_by=run,day&project=core").json()
    assert [(row["run"], row["day"], row["gpu_seconds"]) for row in by_day["rows"]] == [
        ("pod-a/901", "2026-10-02", 8 * 3600), ("sweep", "2026-10-03", 24 * 3600), ("sweep", "2026-10-04", 4 * 3600),
    ]  # fmt: skip


def test_branches_overlap_and_the_total_does_not(admin: Client) -> None:
    fill()
    usage = admin.get(f"/api/v1/reports/usage?{OCTOBER}&group_by=branch").json()
    assert {row["branch"]: row["gpu_seconds"] for row in usage["rows"]} == {
        "core": 36 * 3600, "atlas": 8 * 3600, "vision": 28 * 3600,
    }  # fmt: skip
    assert usage["total"]["gpu_seconds"] == 36 * 3600
    costs = admin.get(f"/api/v1/reports/costs?{OCTOBER}&group_by=branch").json()
    # 8, 28 and 36 x 1.3333 cents are 10.7, 37.3 and 48.0: each branch rounded by itself, as its own page does
    assert {row["branch"]: row["amount"]["amount"] for row in costs["rows"]} == {
        "atlas": "0.11", "vision": "0.37", "core": "0.48",
    }  # fmt: skip
    assert costs["total"]["amount"]["amount"] == "0.48"
    waits = admin.get(f"/api/v1/reports/waits?{OCTOBER}&group_by=branch").json()
    assert {row["branch"]: row["attempts_started"] for row in waits["rows"]} == {"core": 3, "atlas": 1, "vision": 2}
    assert waits["total"]["attempts_started"] == 3


def test_an_unknown_project_is_told_not_shown_as_nothing(admin: Client) -> None:
    fill()
    for name in ("usage", "waits", "costs"):
        answer = admin.get(f"/api/v1/reports/{name}?{OCTOBER}&project=nobody")
        assert answer.status_code == 400
        assert "no project 'nobody'" in answer.content.decode()
    known = admin.get("/api/v1/reports/usage?from=2020-01-01&to=2020-02-01&project=core").json()
    assert known["total"]["gpu_seconds"] == 0


@pytest.mark.parametrize(
    "text", [" =1+1", "\n=1", "\u00a0@A1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20A1", "\u3000=1"]
)
def test_formulas_behind_blanks_and_in_full_width_are_texts(text: str) -> None:
    shown: Any = cell(text)
    assert shown == f"'{text}"

"""Fair share at every door: the same figures in report, REST, command and page; each caller sees its own part."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from api import tokens
from events import projector
from events.access import Scope
from events.append import append, fact
from events.types.accounts import AssociationReported, AssociationWithdrawn
from events.types.shares import FairshareConfigured
from jobs import queries_fairshare as queries
from jobs.queries_whatif import what_if
from jobs.standing import standing
from tests.hand import DAY, HOUR, ask, at, gpus, job, mapped, place, project, tell
from tests.web.books import person, signed_in
from tests.web.pages import html_of, table, words

pytestmark = pytest.mark.django_db
NOON = datetime.fromtimestamp(at("2026-03-10 12:00"), UTC)
WINDOW = ("2026-03-01", "2026-03-10T12:00:00Z")
VISION = Scope.only({"vision"})
NUMBERS = itertools.count(1)


def shares(account: str, parent: str | None = "root", shares: int = 1, user: str | None = None) -> AssociationReported:
    return AssociationReported(cluster="pod-a", account=account, parent=parent, shares=shares, user=user)


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    """root > lab > (vision 3 with ada, ben; speech 1 with cy), root > guest 1 with dan; lab has 4, guest 1.

    Without decay, one unit per GPU-second: ada 300 h, ben 100 h, cy 200 h, dan 400 h; 1000 h in all.
    """
    start = at("2026-03-08 00:00")
    tell(
        place(), project("lab", kind="team"), project("vision", "lab"), project("speech", "lab"), project("guests"),
        mapped("lab", "lab"), mapped("vision", "vision"), mapped("speech", "speech"), mapped("guest", "guests"),
        shares("root", None), shares("lab", shares=4), shares("vision", "lab", 3), shares("speech", "lab"),
        shares("guest"), shares("vision", None, user="ada"), shares("vision", None, user="ben"),
        shares("speech", None, user="cy"), shares("guest", None, user="dan"),
        FairshareConfigured("pod-a", "2026-01-01", 0, calc_period_seconds=1, weights=("*=gpu:1000",)),
        job("1", start, start + 50 * HOUR, account="vision", user="ada", **gpus(6)),
        job("2", start, start + 50 * HOUR, account="vision", user="ben", **gpus(2)),
        job("3", start, start + 50 * HOUR, account="speech", user="cy", **gpus(4)),
        job("4", start, start + 50 * HOUR, account="guest", user="dan", **gpus(8)),
    )  # fmt: skip


@pytest.fixture
def caller() -> Callable[..., Client]:
    def make(*scopes: str, projects: tuple[str, ...] = ()) -> Client:
        tokens.forget()
        _, secret = tokens.create(f"test-{next(NUMBERS)}", scopes, projects)
        return Client(HTTP_AUTHORIZATION=f"Bearer {secret}")

    return make


def by_account(rows: Any, name: str) -> dict[str, Any]:
    return {row["account"]: row[name] for row in rows if not row.get("user")}


# Worked by hand. Shares: lab 4/5, guest 1/5; vision 3/4, speech 1/4 of lab. Use: lab 600/1000, guest 400/1000;
# vision 400/600, speech 200/600. Level: 0.8/0.6, 0.2/0.4, 0.75/(2/3), 0.25/(1/3). Four users; ranks: in lab (level
# 1.333) vision (1.125) before speech (0.75): ben (0.5/0.25 = 2) before ada (0.5/0.75), then cy, then dan.
NORM = {"lab": 0.8, "guest": 0.2, "vision": 0.75, "speech": 0.25}
EFFECTIVE = {"lab": 0.6, "guest": 0.4, "vision": 0.666667, "speech": 0.333333}
LEVEL = {"lab": 1.333333, "guest": 0.5, "vision": 1.125, "speech": 0.75}
FACTOR = {"ben": 1.0, "ada": 0.75, "cy": 0.5, "dan": 0.25}
USED = {"root": 3_600_000, "lab": 2_160_000, "vision": 1_440_000, "speech": 720_000, "guest": 1_440_000}


def test_the_report_has_the_figures_worked_by_hand() -> None:
    report = ask("fairshare", *WINDOW, "account", cut=NOON)
    rows = [row for row in report.rows if row["account"] != "root"]
    assert by_account(rows, "norm_shares") == NORM
    assert by_account(rows, "effective_usage") == EFFECTIVE
    assert by_account(rows, "level_fs") == LEVEL
    assert by_account(report.rows, "usage") == by_account(report.rows, "undecayed_seconds") == USED
    assert report.total == {"usage": 3_600_000, "decayed_seconds": 3_600_000.0, "undecayed_seconds": 3_600_000}
    users = ask("fairshare", *WINDOW, "user", cut=NOON).rows
    assert {row["user"]: row["factor"] for row in users} == FACTOR
    assert {row["user"]: row["rank"] for row in users} == {"ben": 1, "ada": 2, "cy": 3, "dan": 4}
    projects = ask("fairshare", *WINDOW, "project", cut=NOON).rows
    assert {row["project"]: row["usage"] // 3600 for row in projects} == {
        "lab": 600, "vision": 400, "speech": 200, "guests": 400,
    }  # fmt: skip


def test_by_day_it_is_the_standing_as_each_day_ended() -> None:
    """20 GPUs from 8 March on: 480 h by the end of the first day, 960 by the second, 1000 at noon of the third."""
    rows = ask("fairshare", "2026-03-07", "2026-03-12", "day,account", cut=NOON).rows
    roots = {row["day"]: row["usage"] // 3600 for row in rows if row["account"] == "root"}
    assert roots == {"2026-03-07": 0, "2026-03-08": 480, "2026-03-09": 960, "2026-03-10": 1000}


def test_as_known_before_a_late_attempt() -> None:
    known = projector.position(projector.groups()[-1])
    tell(job("5", at("2026-03-08 01:00"), at("2026-03-08 02:00"), account="guest", user="dan", **gpus(10)))
    assert ask("fairshare", *WINDOW, "account", cut=NOON).total["usage"] == 3_636_000
    before = ask("fairshare", *WINDOW, "account", as_known_at=str(known), cut=NOON)
    assert before.total["usage"] == 3_600_000


def test_rest_as_known_before_a_late_attempt(caller: Callable[..., Client]) -> None:
    """10 GPUs for an hour come late: 36,000 GPU-seconds more. The page of shares has them, the earlier state not."""
    known = projector.position(projector.groups()[-1])
    tell(job("5", at("2026-03-08 01:00"), at("2026-03-08 02:00"), account="guest", user="dan", **gpus(10)))
    client, query = caller("read"), {"at": "2026-03-10T12:00:00Z"}
    now = client.get("/api/v1/fairshare", query).json()
    then = client.get("/api/v1/fairshare", {**query, "as_known_at": str(known)}).json()
    assert (now["results"][0]["total"]["usage"], then["results"][0]["total"]["usage"]) == (3_636_000, 3_600_000)
    assert then["as_of"] == {"position": known, "time": "2026-03-10T12:00:00Z"}
    assert by_account(then["results"][0]["rows"], "level_fs")["lab"] == LEVEL["lab"]
    wrong = client.get("/api/v1/fairshare", {"as_known_at": "999999999"})
    assert (wrong.status_code, wrong.json()["errors"][0]["parameter"]) == (400, "as_known_at")
    shares = "/api/v1/fairshare/pod-a/sacctmgr"
    assert client.get(shares, {**query, "as_known_at": str(known)}).content == client.get(shares, query).content


def test_a_share_that_changed_holds_from_then_on() -> None:
    """Said later, at its own time; what was told first holds before it."""

    def said(data: Any, type_: str, when: int) -> None:
        append([fact(data, type_=type_, source="sacctmgr:pod-a", source_key=f"{type_}{when}{data.account}",
                     occurred_us=when * 1_000_000, actor="test")])  # fmt: skip
        projector.catch_up()

    said(shares("guest", shares=6), "association.reported", at("2026-03-09 00:00"))
    gone = AssociationWithdrawn(cluster="pod-a", account="speech", user="cy")
    said(gone, "association.withdrawn", at("2026-03-10 00:00"))
    day = {row["day"]: row["norm_shares"] for row in ask("fairshare", "2026-03-08", "2026-03-11", "day,account",
                                                         cut=NOON).rows if row["account"] == "guest"}  # fmt: skip
    assert day == {"2026-03-08": 0.6, "2026-03-09": 0.6, "2026-03-10": 0.6}
    assert _norm("guest", "2026-03-08 12:00") == 0.2
    found = standing("pod-a", NOON)
    assert [line.member.user for line in found.lines if line.member.account == "speech"] == [""]
    assert {line.member.account: line.standing.usage for line in found.lines if not line.member.user} == USED


def _norm(account: str, when: str) -> float:
    found = standing("pod-a", datetime.fromtimestamp(at(when), UTC))
    return next(one.standing.norm_shares for one in found.lines if one.member.account == account)


def test_rest_command_and_page_say_the_same(caller: Callable[..., Client]) -> None:
    answer = caller("read").get("/api/v1/fairshare", {"at": "2026-03-10T12:00:00Z"}).json()
    (found,) = answer["results"]
    assert found["cluster"] == "pod-a"
    assert found["rule"] == "Fair Tree, no decay, Slurm's slices of 1 s"
    report = ask("fairshare", *WINDOW, "account", cut=NOON)
    shown = by_account(report.rows, "level_fs")
    assert by_account(found["rows"], "level_fs") == shown
    out = io.StringIO()
    call_command("fairshare", "show", "pod-a", at="2026-03-10T12:00:00Z", stdout=out)
    lines = {tuple(line.split()[:2]): line.split() for line in out.getvalue().splitlines()}
    assert lines["vision", "ben"][2:10] == ["1", "0.500000", "360000", "0.100000", "0.250000", "1.000000",
                                            "2.000000", "1"]  # fmt: skip
    client = signed_in(person("root", admin=True))
    html = html_of(client, "/fairshare/?at=2026-03-10T12:00:00Z&account=vision")
    accounts = {row[0]: row[1:] for row in table(html, "Accounts")}
    assert accounts["vision"] == ["vision", "3", "0.750", "0.667", "1.125", "400.0", "400.0"]
    assert accounts["root"][-2:] == ["1000.0", "1000.0"]
    # Chart and table hold the same 30 days: vision had used two thirds of what lab used on each from 9 March on.
    course = table(html, "Use against share by day")
    assert (len(course), course[0]) == (30, ["10 Mar 2026", "0.667", "0.750"])
    assert course[-1][0] == "9 Feb 2026"
    users = {row[0]: row[1:] for row in table(html, "Users")}
    assert users["ben"] == ["vision", "0.500", "0.250", "2.000", "1.000", "1", "100.0", "100.0"]


def test_csv_and_xlsx_of_the_report(caller: Callable[..., Client]) -> None:
    query = {"from": "2026-03-01", "to": "2026-03-10T12:00:00Z", "group_by": "user"}
    answer: Any = caller("read").get("/api/v1/reports/fairshare", {**query, "format": "csv"})
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].split(",")[:5] == ["cluster", "account", "user", "shares", "norm_shares"]
    assert sorted(line.split(",")[2] for line in lines[1:]) == ["ada", "ben", "cy", "dan"]
    book: Any = caller("read").get("/api/v1/reports/fairshare", {**query, "format": "xlsx"})
    assert b"".join(book.streaming_content)[:2] == b"PK"
    book.close()
    answer.close()


def test_the_page_of_a_project_has_its_accounts() -> None:
    client = signed_in(person("root", admin=True))
    rows = {
        row[0]: row[1:] for row in table(html_of(client, "/projects/lab/?from=2026-03-01&to=2026-03-31"), "Fair share")
    }
    assert sorted(rows) == ["lab", "speech", "vision"]
    assert rows["vision"] == ["vision", "3", "0.750", "0.667", "1.125", "400.0", "400.0"]
    lead = signed_in(person("lead", projects=("vision",)))
    rows = {
        row[0]: row for row in table(html_of(lead, "/projects/vision/?from=2026-03-01&to=2026-03-31"), "Fair share")
    }
    assert sorted(rows) == ["vision"]


def test_accounts_of_a_project_alone_are_those_of_the_whole() -> None:
    """Worked by hand above. `inner` takes the share of speech, so who is in it competes with cy, and eve with them."""
    start = at("2026-03-08 00:00")
    tell(
        AssociationReported(cluster="pod-a", account="inner", parent="speech", shares_of_parent=True),
        shares("inner", None, user="eve"), mapped("inner", "speech"),
        job("6", start, start + 50 * HOUR, account="inner", user="eve", **gpus(4)),
    )  # fmt: skip
    for scope, name in ((Scope.everything(), "lab"), (Scope.everything(), "guests"), (VISION, "vision")):
        whole = [row for row in queries.seen(scope, "pod-a", NOON, name).rows if not row["user"]]
        alone = queries.of_project(scope, "pod-a", NOON, name)
        assert list(alone.rows) == [row | {"norm_usage": None} for row in whole]
        assert alone.rule == "Fair Tree, no decay, Slurm's slices of 1 s"
    # 200 h more below speech: lab has used 800 h, vision 400 and speech 400 of them, inner 200 of speech's 400.
    rows = queries.of_project(Scope.everything(), "pod-a", NOON, "lab").rows
    assert [row["account"] for row in rows] == ["lab", "speech", "inner", "vision"]
    assert by_account(rows, "effective_usage") == {"lab": 0.666667, "speech": 0.5, "inner": 0.5, "vision": 0.5}
    assert by_account(rows, "level_fs") == {"lab": 1.2, "speech": 0.5, "inner": None, "vision": 1.5}
    assert by_account(rows, "norm_shares") == {"lab": 0.8, "speech": 0.25, "inner": 0.25, "vision": 0.75}


def test_classic_accounts_of_a_project_are_those_of_the_whole() -> None:
    tell(FairshareConfigured("pod-a", "2026-01-01", 0, calc_period_seconds=1, algorithm="classic",
                             weights=("*=gpu:1000",)))  # fmt: skip
    whole = [row for row in queries.seen(Scope.everything(), "pod-a", NOON, "lab").rows if not row["user"]]
    assert list(queries.of_project(Scope.everything(), "pod-a", NOON, "lab").rows) == whole
    # Classic mixes a share of the use above into the own: lab 0.6, speech 0.2 + (0.6 - 0.2) / 4.
    assert by_account(whole, "effective_usage")["speech"] == 0.3


# --- who sees what ---------------------------------------------------------------------------------------------


def test_others_are_one_row_without_names() -> None:
    found = queries.seen(VISION, "pod-a", NOON)
    assert [(row["account"], row["user"]) for row in found.rows] == [
        ("root", ""), ("vision", ""), ("vision", "ada"), ("vision", "ben"), ("others", ""),
    ]  # fmt: skip
    rows = {(row["account"], row["user"]): row for row in found.rows}
    others = rows["others", ""]
    assert (others["usage"], others["norm_usage"], others["shares"]) == (2_160_000, 0.6, None)
    assert rows["vision", ""]["parent"] == ""  # who is above it is not its business
    assert rows["vision", ""]["level_fs"] == 1.125
    assert rows["vision", "ben"]["rank"] == 1


def test_no_door_tells_a_lead_of_the_accounts_of_others(caller: Callable[..., Client]) -> None:
    client = caller("read", projects=("vision",))
    bodies = [client.get(path).content.decode() for path in (
        "/api/v1/fairshare?at=2026-03-10T12:00:00Z", "/api/v1/fairshare/pod-a/sacctmgr",
        "/api/v1/fairshare?at=2026-03-10T12:00:00Z&what_if=nodes:1,hours:1",
        "/api/v1/reports/fairshare?from=2026-03-01&to=2026-03-10T12:00:00Z&group_by=user",
        "/api/v1/reports/fairshare?from=2026-03-01&to=2026-03-10T12:00:00Z&group_by=day,project",
    )]  # fmt: skip
    lead = signed_in(person("lead", projects=("vision",)))
    bodies.append(html_of(lead, "/fairshare/?at=2026-03-10T12:00:00Z").split("<main", 1)[1])
    for body in bodies:
        assert "vision" in body
        for name in ("speech", "guest", "dan", '"cy"', ">cy<"):
            assert name not in body
    assert client.get("/api/v1/fairshare?what_if=nodes:1,hours:1,account:guest").status_code == 400
    assert client.get("/api/v1/fairshare/pod-b/sacctmgr").status_code == 404
    stranger = caller("read", projects=("elsewhere",))
    assert stranger.get("/api/v1/fairshare").json()["results"] == []
    assert stranger.get("/api/v1/fairshare/pod-a/sacctmgr").status_code == 404


# --- what if, export, configuration ------------------------------------------------------------------------------


def test_what_if_in_every_door(caller: Callable[..., Client]) -> None:
    """Speech uses 5 nodes of 8 GPUs for 10 h = 400 h more: lab 1000/1400, guest 400/1400, speech 600/1000."""
    asked = "nodes:5,hours:10,account:speech,gpus:8"
    found = what_if(Scope.everything(), "pod-a", NOON, asked)
    rows = {(row["account"], row["user"]): row for row in found.rows}
    assert rows["speech", ""]["level_fs_now"] == rows["speech", ""]["level_fs_then"] == 0.75
    assert rows["speech", ""]["level_fs_with_it"] == round(0.25 / 0.6, 6)
    assert rows["guest", ""]["level_fs_with_it"] == round(0.2 / (400 / 1400), 6)
    assert found.told.startswith("5 nodes (8 GPUs and 0 CPUs each) for 10 h by speech, in partition train: 1440000")
    answer = caller("read").get("/api/v1/fairshare", {"at": "2026-03-10T12:00:00Z", "what_if": asked}).json()
    assert answer["results"][0]["what_if"]["rows"] == found.rows
    out = io.StringIO()
    call_command("fairshare", "what-if", "pod-a", asked, at="2026-03-10T12:00:00Z", stdout=out)
    assert "0.416667" in out.getvalue()
    client = signed_in(person("root", admin=True))
    html = html_of(client, "/fairshare/?at=2026-03-10T12:00:00Z&account=speech&nodes=5&hours=10")
    assert table(html, "What if")[0][:4] == ["speech", "0.750", "0.750", "0.417"]


@pytest.mark.parametrize(("text", "says"), [
    ("nodes:10", "write nodes and hours"), ("nodes:x,hours:1", "nodes:x is no whole number"),
    ("nodes:1,hours:1,racks:2", "there are nodes, hours"), ("nodes:1,nodes:2,hours:1", "give nodes once"),
    ("nodes:1,hours:1,account:none", "no account 'none'"), ("nodes:1,hours:1", "say for which account"),
    ("nodes:1,hours:1,account:vision,user:dan", "has no user 'dan'"),
])  # fmt: skip
def test_a_wrong_question_is_told(caller: Callable[..., Client], text: str, says: str) -> None:
    answer = caller("read").get("/api/v1/fairshare", {"what_if": text})
    assert answer.status_code == 400
    assert says in answer.json()["detail"]


def test_shares_go_back_to_slurm_as_commands(caller: Callable[..., Client]) -> None:
    lines = caller("read").get("/api/v1/fairshare/pod-a/sacctmgr").content.decode().splitlines()
    assert lines == [
        "sacctmgr -i modify account where name=guest cluster=pod-a set fairshare=1",
        "sacctmgr -i modify account where name=lab cluster=pod-a set fairshare=4",
        "sacctmgr -i modify account where name=speech cluster=pod-a set fairshare=1",
        "sacctmgr -i modify account where name=vision cluster=pod-a set fairshare=3",
        "sacctmgr -i modify user where name=dan account=guest cluster=pod-a set fairshare=1",
        "sacctmgr -i modify user where name=cy account=speech cluster=pod-a set fairshare=1",
        "sacctmgr -i modify user where name=ada account=vision cluster=pod-a set fairshare=1",
        "sacctmgr -i modify user where name=ben account=vision cluster=pod-a set fairshare=1",
    ]
    out = io.StringIO()
    call_command("fairshare", "export", "pod-a", stdout=out)
    assert out.getvalue().splitlines() == lines


@pytest.mark.parametrize(("options", "says"), [
    ({"half_life": "0", "mode": "continuous"}, "needs more than 0 seconds"),
    ({"half_life": "soon"}, "is no length of time"),
    ({"half_life": "7d", "weights": ["train=Mem=0.25"]}, "is not one of CPU=, GRES/gpu= and node="),
    ({"half_life": "7d", "weights": ["train=CPU=0.1255"]}, "at most three decimals"),
    ({"half_life": "7d", "phase": "300"}, "is not within a period of 300 s"),
    ({"half_life": "7d", "reset": "hourly"}, "reset"),
    ({"half_life": "7d", "day": "2026-02-30"}, "is no day of the calendar"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError) as told:
        call_command("fairshare", "set", "pod-a", **options)
    assert told.value.returncode == 2
    assert says in str(told.value)


def test_a_half_life_of_nothing_is_refused_at_intake_too(caller: Callable[..., Client]) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "test", "type": "fairshare.configured",
             "time": "2026-03-01T00:00:00Z", "data": {"cluster": "pod-a", "from_day": "2026-03-01",
                                                      "mode": "continuous", "half_life_seconds": 0}}  # fmt: skip
    answer = caller("events:write").post("/api/v1/events", json.dumps(event),
                                         content_type="application/cloudevents+json")  # fmt: skip
    assert answer.status_code == 422
    assert "needs more than 0 seconds" in answer.content.decode()


def test_accounts_without_shares_are_named_and_clusters_without_fair_share_explained(
    caller: Callable[..., Client],
) -> None:
    tell(job("9", at("2026-03-08 00:00"), at("2026-03-08 02:00"), account="stray", user="x", **gpus(1)))
    assert ask("fairshare", *WINDOW, "account", cut=NOON).gaps == [
        {"account": "stray", "why": "has no shares, so its use counts for nobody", "undecayed_seconds": 7200}
    ]
    tell(FairshareConfigured("pod-b", "2026-01-01", 7 * DAY))
    gaps = ask("fairshare", *WINDOW, "account", cut=NOON).gaps
    assert any("no shares of pod-b are known" in gap["why"] for gap in gaps)
    html = words(html_of(signed_in(person("root", admin=True)), "/fairshare/?cluster=pod-b"))
    assert "no shares of pod-b are known" in html


def test_the_page_asks_the_same_number_of_questions_whatever_there_is() -> None:
    client = signed_in(person("root", admin=True))
    counts = []
    for number in range(2):
        client.get("/fairshare/")
        with CaptureQueriesContext(connection) as found:
            client.get("/fairshare/")
        counts.append(len(found.captured_queries))
        start = at("2026-03-05 00:00")
        tell(*(shares(f"more{n}") for n in range(20)), *(shares(f"more{n}", None, user=f"p{n}") for n in range(20)),
             *(job(f"{number}-{n}", start + n, start + n + DAY, account=f"more{n}", user=f"p{n}", **gpus(1))
               for n in range(20)))  # fmt: skip
    assert counts[0] == counts[1] <= 32


def test_the_classic_algorithm_by_hand() -> None:
    """Ada: S = 0.8 x 0.75 x 0.5 = 0.3; U of vision 0.4 + (0.6 - 0.4) x 0.75 = 0.55, of her 0.3 + (0.55 - 0.3) x 0.5 =
    0.425; 2^-(0.425 / 0.3) = 0.374577, dampened by 2 its root. Dan: S = 0.2, U = 0.4: 0.25."""
    classic: dict[str, Any] = {"algorithm": "classic", "calc_period_seconds": 1, "weights": ("*=gpu:1000",)}
    tell(FairshareConfigured("pod-a", "2026-01-01", 0, **classic))
    rows = {row["user"]: row for row in ask("fairshare", *WINDOW, "user", cut=NOON).rows}
    assert (rows["ada"]["factor"], rows["dan"]["factor"], rows["ada"]["level_fs"]) == (0.374577, 0.25, None)
    html = html_of(signed_in(person("root", admin=True)), "/fairshare/?at=2026-03-10T12:00:00Z")
    assert {row[0]: row[4] for row in table(html, "Accounts")}["vision"] == "0.550"
    tell(FairshareConfigured("pod-a", "2026-01-01", 0, dampening=2, **classic))
    rows = {row["user"]: row for row in ask("fairshare", *WINDOW, "user", cut=NOON).rows}
    assert (rows["ada"]["factor"], rows["dan"]["factor"]) == (0.612027, 0.5)


def test_shares_of_one_partition_take_the_use_in_it() -> None:
    """Ada ran 300 h in train; with shares in debug besides, 5 h there count for those."""
    debug = AssociationReported(cluster="pod-a", account="vision", user="ada", partition="debug", shares=2)
    start = at("2026-03-09 00:00")
    tell(debug, job("d", start, start + 5 * HOUR, account="vision", user="ada", partition="debug", **gpus(1)))
    lines = {
        line.member[:3]: line for line in standing("pod-a", datetime.fromtimestamp(at("2026-12-31 00:00"), UTC)).lines
    }
    assert lines["vision", "ada", ""].standing.usage == 300 * HOUR
    assert lines["vision", "ada", "debug"].standing.usage == 5 * HOUR
    assert lines["vision", "ada", "debug"].standing.norm_shares == 0.5
    assert lines["vision", "", ""].standing.usage == 405 * HOUR


def test_parent_shares_and_users_without_shares() -> None:
    """Speech hands its user on to lab's level; erik of vision has no shares: his hour is vision's own."""
    start = at("2026-03-09 00:00")
    handed = AssociationReported(cluster="pod-a", account="speech", parent="lab", shares_of_parent=True)
    said = [handed, job("e", start, start + HOUR, account="vision", user="erik", **gpus(1))]
    tell(*said)
    late = datetime.fromtimestamp(at("2026-12-31 00:00"), UTC)
    found = queries.seen(Scope.everything(), "pod-a", late)
    rows = {(row["account"], row["user"]): row for row in found.rows}
    assert rows["vision", ""]["usage"] == 401 * HOUR
    assert rows["vision", "ben"]["effective_usage"] == round(100 / 401, 6)
    assert (rows["speech", ""]["shares"], rows["speech", ""]["level_fs"]) == (None, None)
    assert rows["speech", "cy"]["norm_shares"] == 0.25  # 1 of vision's 3 and cy's 1
    assert found.gaps == []

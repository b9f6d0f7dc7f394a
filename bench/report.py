"""report: server time of the pages and the report that people open most, over 50,000 and over 1,000,000 attempts.

Requests go through Django's whole handler in this process, set up as the server's are (config/wsgi.py), as staff and as
a lead who may see one team, in turns of the two books. What grows from one to the other: the days (10 times) and the
jobs a day (twice). The tree of projects, accounts, people, shares and prices, and one great run of 1,000 jobs, are the
same.
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from bench import books
from bench.base import Figures, Measured, median, own_database, owner_sql, use_database
from bench.books import Size
from bench.live import percentile

SIZES: Final = (Size(50_000, 90), Size(1_000_000, 900))
QUICK: Final = (Size(1_000, 30), Size(3_000, 45))
TURNS: Final = 3
REQUESTS: Final = 80
"""Of each page, book and turn, half of them as staff and half as the lead: 240 in all."""
TEAM: Final = "team0"
"""What the lead may see: five projects of forty, the great run's among them."""
BAR_MS: Final = 150.0

Address = Callable[[random.Random], str]


@dataclass
class Book:
    """One filled database with who looks at it, and what pages can be asked for as whom."""

    name: str
    size: Size
    clients: dict[str, Client]
    pages: dict[str, dict[str, Address]]
    fill_s: float
    took: dict[tuple[str, int], list[float]] = field(default_factory=dict)


def run(*, quick: bool) -> Measured:
    """Both books (quick: 1,000 and 3,000 attempts, a few requests)."""
    sizes, turns, requests = (QUICK, 1, 6) if quick else (SIZES, TURNS, REQUESTS)
    with ExitStack() as stack:
        made = [_book(stack.enter_context(own_database()), size) for size in sizes]
        importlib.import_module("config.wsgi")
        for turn in range(turns):
            for page in made[0].pages:
                for book in made:
                    book.took[page, turn] = list(_timed(book, page, requests, turn))
        return _result(made, turns)


def _book(name: str, size: Size) -> Book:
    began = time.perf_counter()
    books.fill(size)
    took = time.perf_counter() - began
    clients = {"staff": _client("bench-staff", staff=True), "lead": _client("bench-lead", staff=False)}
    call_command("grant", "bench-lead", f"--project={TEAM}", verbosity=0)
    return Book(name, size, clients, _pages(), took)


def _client(name: str, *, staff: bool) -> Client:
    user = User.objects.create_user(name, is_staff=staff)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def _pages() -> dict[str, dict[str, Address]]:
    """Page -> who -> its address; by chance over projects and runs that this person may see."""
    everything = [f"proj{number:02d}" for number in range(books.PROJECTS)]
    team = [code for number, code in enumerate(everything) if number % books.TEAMS == 0]
    projects = {"staff": everything, "lead": team}
    ((great,),) = owner_sql(f"SELECT id FROM jobs_run WHERE name = '{books.GREAT_RUN}'")
    return {
        "month_costs": _both(lambda _choose: f"/api/v1/reports/costs?{_last_month()}&group_by=project"),
        "project": _of_each(projects, "/projects/{}/"),
        "run": _of_each({"staff": _runs(everything), "lead": _runs(team)}, "/runs/{}/"),
        "great_run": _both(lambda _choose: f"/runs/{great}/"),
        "runs": _both(lambda _choose: "/runs/"),
        "jobs": _both(lambda _choose: "/jobs/"),
        "fairshare": _of_each(
            {who: [f"acc{code[4:]}" for code in seen] for who, seen in projects.items()}, "/fairshare/?account={}"
        ),
    }


def _both(address: Address) -> dict[str, Address]:
    return {"staff": address, "lead": address}


def _of_each(choices: dict[str, list[str]], path: str) -> dict[str, Address]:
    def of(found: list[str]) -> Address:
        return lambda choose: path.format(choose.choice(found))

    return {who: of(found) for who, found in choices.items()}


def _runs(projects: Sequence[str]) -> list[str]:
    """Runs of one attempt in these projects, by chance."""
    accounts = ", ".join(f"'acc{code[4:]}'" for code in projects)
    found = owner_sql(
        "SELECT setseed(0.5)",
        f"SELECT id FROM jobs_run WHERE attempts = 1 AND account IN ({accounts}) ORDER BY random() LIMIT 200",
    )
    return [str(row[0]) for row in found]


def _last_month() -> str:
    """The calendar month before this one."""
    now = datetime.now(UTC)
    year, month = (now.year, now.month - 1) if now.month > 1 else (now.year - 1, 12)
    return f"from={year}-{month:02d}-01&to={now.year}-{now.month:02d}-01"


def _timed(book: Book, page: str, requests: int, turn: int) -> Iterator[float]:
    """Seconds of each request, after a few that warm up."""
    use_database(book.name)
    choose = random.Random(f"{page} {turn}")
    for number in range(-4, requests):
        who = "staff" if number % 2 else "lead"
        address = book.pages[page][who](choose)
        begin = time.perf_counter()
        answer: Any = book.clients[who].get(address)
        took = time.perf_counter() - begin
        if answer.status_code != 200:
            raise RuntimeError(f"{address} as {who}: {answer.status_code}")
        if number >= 0:
            yield took


def _result(made: Sequence[Book], turns: int) -> Measured:
    """ratio: growth of the page that grows most, by its p95 over all turns. runs: the same, turn by turn."""
    small, large = made
    figures: Figures = {f"{book.size.attempts}_attempts_over_days": book.size.days for book in made}
    figures |= {f"fill_s_at_{book.size.attempts}": book.fill_s for book in made}
    figures["requests_each"] = sum(len(times) for (page, _), times in small.took.items() if page == "run")
    growth: dict[str, float] = {}
    for page in small.pages:
        p95 = [_p95(book, page, range(turns)) for book in made]
        growth[page] = p95[1] / p95[0]
        for book, value in zip(made, p95, strict=True):
            everything = [one for turn in range(turns) for one in book.took[page, turn]]
            figures[f"{page}_p50_ms_at_{book.size.attempts}"] = 1000 * median(everything)
            figures[f"{page}_p95_ms_at_{book.size.attempts}"] = value
        figures[f"{page}_growth"] = growth[page]
    worst = max(growth, key=lambda page: growth[page])
    figures |= {"grows_most": worst, "slowest_p95_ms": max(_p95(large, page, range(turns)) for page in large.pages)}
    runs = [max(_p95(large, page, [turn]) / _p95(small, page, [turn]) for page in small.pages) for turn in range(turns)]
    return Measured("report", growth[worst], figures, runs)


def _p95(book: Book, page: str, turns: Sequence[int]) -> float:
    """Milliseconds."""
    return 1000 * percentile([one for turn in turns for one in book.took[page, turn]], 95)

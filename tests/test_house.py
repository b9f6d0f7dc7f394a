"""The shape of the house: sizes, names, docstrings, and what SQL may touch. Exceptions carry their reason."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("config", "events", "fleet", "jobs", "spares", "billing", "api", "web")
LAYERS = {"events": 0, "fleet": 1, "jobs": 2, "spares": 2, "billing": 3}
MOST_LINES = 600
MOST_FUNCTION_LINES = 70
BANNED_MODULES = {"utils", "helpers", "common", "manager", "info", "misc"}


def modules() -> list[Path]:
    return [p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py")) if "migrations" not in p.parts]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_is_too_long() -> None:
    long = {name(p): n for p in modules() if (n := len(p.read_text(encoding="utf-8").splitlines())) > MOST_LINES}
    assert long == {}


def test_files_are_short_as_a_rule() -> None:
    sizes = sorted(len(p.read_text(encoding="utf-8").splitlines()) for p in modules())
    assert sizes[int(len(sizes) * 0.95)] <= 400


def test_no_function_is_too_long() -> None:
    long = {
        f"{name(p)}:{f.name}": length(f) for p in modules() for f in functions(p) if length(f) > MOST_FUNCTION_LINES
    }
    assert long == {}


def test_functions_are_short_as_a_rule() -> None:
    assert statistics.median(length(f) for p in modules() for f in functions(p)) <= 10


@pytest.mark.parametrize("path", modules(), ids=name)
def test_every_public_thing_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = [] if ast.get_docstring(tree) or not tree.body else ["module"]
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            silent += [] if ast.get_docstring(node) else [node.name]
    assert silent == []


def test_no_module_is_named_for_nothing() -> None:
    assert [name(p) for p in modules() if p.stem in BANNED_MODULES] == []


def test_sql_follows_the_arrows() -> None:
    """A statement touches only tables of its own package and of those to its right."""
    wrong = []
    for package, layer in LAYERS.items():
        texts = [*(ROOT / package).rglob("*.sql"), *(ROOT / package).glob("*.py")]
        for path in texts:
            found = re.findall(r"\b(events|fleet|jobs|spares|billing)_[a-z]+\b", path.read_text(encoding="utf-8"))
            wrong += [f"{name(path)}: {o}" for o in found if LAYERS[o] >= layer and o != package]
    assert wrong == []


def test_money_is_never_a_float() -> None:
    floats = [
        f"{name(p)}:{node.lineno}"
        for p in modules()
        if p.parts[len(ROOT.parts)] == "billing"
        for node in ast.walk(ast.parse(p.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.Name) and node.id == "float")
    ]
    assert floats == []


def test_the_page_of_event_types_is_up_to_date() -> None:
    from events.management.commands.describe_types import TARGET, page

    assert TARGET.read_text(encoding="utf-8") == page()


def test_decisions_are_short() -> None:
    long = [name(p) for p in (ROOT / "docs" / "decisions").glob("*.md") if len(p.read_text().splitlines()) > 40]
    assert long == []


def test_links_in_documents_lead_somewhere() -> None:
    broken = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
        broken += [f"{name(path)}: {t}" for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert broken == []


def test_commands_in_documents_exist() -> None:
    """Every `manage.py X` and `make X` that a document names is a command."""
    from django.core.management import get_commands

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    wrong = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        wrong += [
            f"{name(path)}: manage.py {c}" for c in re.findall(r"manage\.py ([a-z_]+)", text) if c not in get_commands()
        ]
        wrong += [f"{name(path)}: make {t}" for t in re.findall(r"`make ([a-z]+)", text) if t not in targets]
    assert wrong == []


def test_nothing_of_a_private_machine_is_named() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    found = [
        f
        for f in files
        if (ROOT / f).is_file()
        and Path(f).suffix in {".py", ".md", ".toml", ".html", ".sql", ".yaml", ".css", ".js", ""}
        and f != "tests/test_house.py"
        and re.search(r"(?<![\w.])/(?:work|home/\w+|root)/", (ROOT / f).read_text(encoding="utf-8", errors="ignore"))
    ]
    assert found == []

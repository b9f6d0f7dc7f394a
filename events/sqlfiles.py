"""SQL lives in files beside the code that runs it; this reads them once."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def statements(package: str, name: str) -> tuple[str, ...]:
    """The statements of `<package>/sql/<name>.sql`, split at lines that start with `-- step`."""
    text = resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return tuple(part.partition("\n")[2].strip() for part in text.split("-- step")[1:])

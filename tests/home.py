"""Loaded before Django's settings: tests have a server of their own and never touch what is under var/."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

if not os.environ.get("HALLBOOK_HOME") and not os.environ.get("DATABASE_URL"):
    os.environ["HALLBOOK_HOME"] = str(Path(tempfile.gettempdir()) / f"hallbook-tests-{os.getuid()}")

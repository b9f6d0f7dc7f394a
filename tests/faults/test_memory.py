"""A file much larger than memory would allow is streamed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.faults
HEADER = "JobIDRaw|State|Submit|Start|End|JobName"


def test_a_file_of_200_mb_stays_under_250_mb_of_memory(tmp_path: Path, hall: dict[str, str]) -> None:
    file, filler = tmp_path / "big.psv", "x" * 1900
    with file.open("w") as out:
        out.write(f"{HEADER}\n")
        out.writelines(
            f"{number}|COMPLETED|2026-11-01T00:00:00|2026-11-01T00:10:00|2026-11-01T01:10:00|{number} {filler}\n"
            for number in range(100_000, 202_000)
        )
    assert file.stat().st_size > 200 * 10**6
    command = [sys.executable, "manage.py", "import_sacct", "--cluster", "pod-a", "--timezone", "UTC", str(file)]
    importer = subprocess.Popen(command, env=hall, cwd=settings.BASE_DIR, stdout=subprocess.PIPE)
    with importer:
        assert importer.stdout is not None
        printed = importer.stdout.read().decode()
        _, status, used = os.wait4(importer.pid, 0)
        importer.returncode = os.waitstatus_to_exitcode(status)
    file.unlink()
    print(f"\nmemory: {used.ru_maxrss // 1024} MB, processor time {used.ru_utime + used.ru_stime:.0f} s")
    assert printed == f"{file}: 102000 accepted, 0 duplicate, 0 rejected\n"
    assert importer.returncode == 0
    assert used.ru_maxrss < 250 * 1024

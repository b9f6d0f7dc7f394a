#!/usr/bin/env python
"""Hallbook's command line: `python manage.py help`."""

import os
import sys


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if not (line := _known(error)):
            raise
        sys.exit(_told(line))


def _known(error: Exception) -> str:
    """One line for what a person can mend without a traceback; empty for anything else."""
    from django.db import OperationalError, ProgrammingError

    from config.database import DatabaseSetupError

    if isinstance(error, DatabaseSetupError):
        return str(error)
    if isinstance(error, OperationalError) and "connect" in str(error).lower():
        return f"the database does not answer: {str(error).strip().splitlines()[0]}"
    if isinstance(error, ProgrammingError) and getattr(error.__cause__, "sqlstate", "") == "42P01":
        return "this installation has no tables yet (or not all): run `manage.py init`, or `manage.py migrate`"
    return ""


def _told(line: str) -> int:
    print(line, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()

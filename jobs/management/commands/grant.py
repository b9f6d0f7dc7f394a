"""`manage.py grant USER --project CODE`: a person may see a project and what hangs below it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.models import Grant, Project


class Command(BaseCommand):
    """Grant or revoke."""

    help = "Let a person see a project and what hangs below it (or no longer)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("user", help="login name")
        parser.add_argument("--project", required=True, action="append", help="project code; may be repeated")
        parser.add_argument("--revoke", action="store_true", help="take the grant back")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Grant; exit 2 for an unknown person or project."""
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}", returncode=2)
        for code in options["project"]:
            if options["revoke"]:
                Grant.objects.filter(user_id=user.pk, project=code).delete()
            elif not Project.objects.filter(code=code).exists():
                raise CommandError(f"there is no project {code!r}; declare it first", returncode=2)
            else:
                Grant.objects.get_or_create(user_id=user.pk, project=code)

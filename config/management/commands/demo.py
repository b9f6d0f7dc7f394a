"""`manage.py demo`: loads the capture of a real Slurm cluster, then serves it."""

from __future__ import annotations

import hashlib
import hmac
from argparse import BooleanOptionalAction
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.management.commands.init import prepare
from events import projector
from events.actions import declare_site, say
from events.queries import head_position
from events.types import EventStruct
from events.types.clusters import SiteDeclared
from events.types.projects import AccountMapped, ProjectDeclared
from events.types.rates import RatePublished
from fleet.queries import site
from jobs.models import Grant

CAPTURE: Final = settings.BASE_DIR / "tests" / "payloads" / "slurm" / "sacct"
FILES: Final = ("allocations.psv", "all_duplicates.psv.gz")
FROM: Final = "2026-01-01"
SITE: Final = "Demo hall"

STATEMENTS: Final[tuple[tuple[str, EventStruct], ...]] = (
    ("project.declared", ProjectDeclared(project="lab", title="Example Lab", kind="organisation")),
    ("project.declared", ProjectDeclared(project="perception", title="Perception", parent="lab", kind="team")),
    ("project.declared", ProjectDeclared(project="embodied", title="Embodied AI", parent="lab", kind="team")),
    ("project.declared", ProjectDeclared(project="vision", title="Vision models", parent="perception")),
    ("project.declared", ProjectDeclared(project="speech", title="Speech models", parent="perception")),
    ("project.declared", ProjectDeclared(project="robotics", title="Robot policies", parent="embodied")),
    ("project.declared", ProjectDeclared(project="genomics", title="Genome models", parent="embodied")),
    *(
        ("account.mapped", AccountMapped(cluster="pod-a", account=name, project=name, from_day=FROM))
        for name in ("vision", "speech", "robotics", "genomics")
    ),
    *(
        ("rate.published", RatePublished(resource_class=name, currency="EUR", micro_per_hour=price, from_day=FROM))
        for name, price in (("h100", 2_400_000), ("h200", 3_100_000), ("cpu", 30_000))
    ),
)
LOGINS: Final = (("admin", "sees everything", None), ("lead", "sees the team perception", "perception"))


class Command(BaseCommand):
    """Load the demo pod, then serve unless told otherwise."""

    help = "Load 109 accounting records of the real cluster pod-a with projects and prices, then serve."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--serve", action=BooleanOptionalAction, default=True, help="serve afterwards")
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Load (a second time nothing changes), print the logins, serve."""
        prepare()
        _refuse_real_books()
        declare_site(SiteDeclared(name=SITE, timezone="Europe/Berlin", currency="EUR"), actor="demo")
        for type_, data in STATEMENTS:
            say(data, type_=type_, actor="demo", key=f"demo/{type_}/{hashlib.sha256(repr(data).encode()).hexdigest()}")
        files = [str(CAPTURE / name) for name in FILES]
        call_command("import_sacct", *files, cluster="pod-a", timezone="UTC", stdout=self.stdout, stderr=self.stderr)
        projector.catch_up()
        for name, sees, project in LOGINS:
            password = login(name, project)
            self.stdout.write(f"login {name!r}, password {password!r}: {sees}")
        if options["serve"]:
            call_command("serve", host=options["host"], port=options["port"])


def _refuse_real_books() -> None:
    """A log cannot forget: demo data must not get into the books of a real site."""
    here = site()
    if here.name != SITE and (here.declared or head_position()):
        raise CommandError(
            f"{settings.HALLBOOK_HOME} keeps the books of {here.name or 'somebody'} already; give the demo a home of "
            "its own: HALLBOOK_HOME=var/demo make demo",
            returncode=2,
        )


def login(name: str, project: str | None) -> str:
    """Make (or keep) a demo login; its password derives from this installation's secret key."""
    secret = hmac.new(settings.SECRET_KEY.encode(), f"demo login {name}".encode(), hashlib.sha256)
    password = f"{name}-{secret.hexdigest()[:10]}"
    user, made = get_user_model().objects.get_or_create(username=name)
    if made:
        user.set_password(password)
    user.is_staff = user.is_superuser = project is None
    user.save()
    if project:
        Grant.objects.get_or_create(user_id=user.pk, project=project)
    return password

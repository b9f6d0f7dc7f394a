"""`manage.py demo`: a hall worth looking at, simulated and loaded through the ordinary doors, then served."""

from __future__ import annotations

import hashlib
import hmac
import time
from argparse import BooleanOptionalAction
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.demo.hall import PODS, ZONE
from config.demo.live import going_on
from config.demo.loading import VERSION, Plan, known_plan, last_recorded, load
from config.demo.people import SITE
from config.demo.world import World
from config.management.commands.init import prepare
from events.queries import head_position
from fleet.queries import site
from jobs.models import Grant

DAYS: Final = 90
MOST_DAYS: Final = 1000
LOGINS: Final = (("admin", "sees everything", None), ("lead", "sees the team perception", "perception"))


class Command(BaseCommand):
    """Load the demo hall, then serve unless told otherwise."""

    help = "Load a simulated hall (32 nodes, 90 days), then serve it, and let it go on in real time."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--serve", action=BooleanOptionalAction, default=True, help="serve afterwards")
        parser.add_argument(
            "--live", action=BooleanOptionalAction, default=True, help="go on in real time while serving"
        )
        parser.add_argument("--pod", choices=PODS, help="4, 32 or 256 nodes of 8 GPUs (default pod: 32)")
        parser.add_argument("--days", type=int, help=f"days until now (default {DAYS})")
        parser.add_argument("--seed", type=int, help="which of many halls (default 1)")
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Load (a second time nothing changes), print the logins, serve."""
        self._began = time.monotonic()
        prepare()
        _refuse_real_books()
        plan = self._plan(options)
        world = None
        if not plan.whole:
            if plan.version != VERSION:
                raise CommandError(
                    "an earlier version began this demo and did not end: give a new one a home", returncode=2
                )
            world = World(plan.pod, plan.seed, plan.begin)
            until = int(time.time()) // 60 * 60
            load(plan, world, until, stdout=self.stdout, stderr=self.stderr, step=self._step)
        for name, sees, project in LOGINS:
            password = login(name, project)
            self.stdout.write(f"login {name!r}, password {password!r}: {sees}")
        if not options["serve"]:
            return
        with self._going_on(plan, world) if options["live"] else nullcontext():
            call_command("serve", host=options["host"], port=options["port"])

    def _going_on(self, plan: Plan, world: World | None) -> AbstractContextManager[None]:
        """The world in real time beside the server; one of an earlier version stands still."""
        if plan.version != VERSION:
            self.stderr.write(
                "these books hold a hall of an earlier version, which does not go on: give a new one a home"
            )
            return nullcontext()
        since = world.queue.now - 1 if world else last_recorded()
        return going_on(world or World(plan.pod, plan.seed, plan.begin), since)

    def _step(self, text: str) -> None:
        self.stdout.write(f"{time.monotonic() - self._began:5.1f} s  {text}")
        self.stdout.flush()

    def _plan(self, options: dict[str, Any]) -> Plan:
        """The world that is here already, or the one that is asked for."""
        if options["days"] is not None and not 1 <= options["days"] <= MOST_DAYS:
            raise CommandError(f"--days {options['days']}: expected 1 to {MOST_DAYS}", returncode=2)
        known = known_plan()
        if known is None:
            today = datetime.now(UTC).astimezone(ZoneInfo(ZONE)).date()
            begin: date = today - timedelta(days=options["days"] or DAYS)
            return Plan(options["pod"] or "pod", options["seed"] if options["seed"] is not None else 1, begin)
        for name in ("pod", "seed"):
            if options[name] not in (None, getattr(known, name)):
                raise CommandError(
                    f"{settings.HALLBOOK_HOME} holds the demo --pod {known.pod} --seed {known.seed} already; give "
                    "another one a home of its own: HALLBOOK_HOME=var/other manage.py demo ...",
                    returncode=2,
                )
        return known


def _refuse_real_books() -> None:
    """A log cannot forget: demo data must not get into the books of a real site."""
    here = site()
    if here.name != SITE.name and (here.declared or head_position()):
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
        user.email = f"{name}@hall.example"
    user.is_staff = user.is_superuser = project is None
    user.save()
    if project:
        Grant.objects.get_or_create(user_id=user.pk, project=project)
    return password

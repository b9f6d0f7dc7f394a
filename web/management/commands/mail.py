"""`manage.py mail`: send, look at and mend mails by hand; what the worker does by the clock is the same."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.validators import validate_email

from fleet.queries import site
from web import mailjob, mailmake, mailout, mailplan, mailweek
from web.mailkinds import WEEKLY
from web.mailmake import NotWanted
from web.mailout import MailRefused, Unsure
from web.mailtext import one_line
from web.mailweek import NoWeek
from web.models import MailSent
from web.ranges import Days

FEWEST = 4
"""Characters of an id that `again` takes."""


class Command(BaseCommand):
    """One verb each."""

    help = "Mails: weekly reports, receipts of jobs, a trial, what did not arrive, a person's address."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        weekly = verbs.add_parser("weekly", help="note and send the weekly report to everybody who has not got it")
        weekly.add_argument("--week", metavar="2026-W48", help="ISO week (default: the last one that is over)")
        weekly.add_argument("--to", metavar="NAME", help="only this person, also if it was sent before")
        weekly.add_argument("--dry-run", action="store_true", help="print the mails, send and note nothing")
        verbs.add_parser("receipts", help="note and send receipts of jobs that are over")
        verbs.add_parser("send", help="send what is due")
        verbs.add_parser("list", help="what did not arrive")
        again = verbs.add_parser("again", help="send once more what failed, is in doubt or was not sent")
        again.add_argument("id", help="of `mail list`, or its beginning")
        test = verbs.add_parser("test", help="send a trial mail to an address, now")
        test.add_argument("address")
        address = verbs.add_parser("address", help="enter a person's e-mail address")
        address.add_argument("name")
        address.add_argument("address", help="'' takes it away")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the verb; exit 1 when a mail was not sent, 2 for what cannot be."""
        getattr(self, f"_{options['verb']}")(options)

    # --- weekly ----------------------------------------------------------------------------------------------------

    def _weekly(self, options: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        days = _week(options["week"], now)
        people = [_person(options["to"])] if options["to"] else mailplan.leads()
        if options["dry_run"]:
            for user in people:
                self._print(user, days, now)
            return
        if options["to"]:
            _check(people[0])
        noted = [user for user in people if self._note(user, days, now, repeat=bool(options["to"]))]
        self.stdout.write(f"{mailweek.week_name(days)}: {len(noted)} noted")
        self._send(options)

    def _note(self, user: Any, days: Days, now: datetime, *, repeat: bool) -> bool:
        ref = mailweek.week_name(days)
        before = MailSent.objects.filter(user_id=user.pk, kind=WEEKLY.name, ref__startswith=ref).count()
        if before and not repeat:
            return False
        try:
            mailmake.may_have(user, WEEKLY)
        except NotWanted as why:
            self.stdout.write(f"{user.get_username()}: not sent, {why}")
            return False
        return mailout.note(user, WEEKLY, f"{ref}/{before + 1}" if before else ref, now)

    def _print(self, user: Any, days: Days, now: datetime) -> None:
        try:
            found = mailweek.read(user, days, now)
        except NoWeek as why:
            self.stdout.write(f"{user.get_username()}: nothing to send, {why}")
            return
        self.stdout.write(f"To: {user.get_username()} <{one_line(user.email) or 'no address'}>")
        self.stdout.write(f"Subject: {found.subject}\n\n{mailmake.text_of(WEEKLY, found, user, preview=True)}")

    # --- the others ------------------------------------------------------------------------------------------------

    def _receipts(self, options: dict[str, Any]) -> None:
        self.stdout.write(f"{mailjob.find(datetime.now(UTC))} noted")
        self._send(options)

    def _send(self, _options: dict[str, Any]) -> None:
        done = mailout.deliver()
        if done is None:
            self.stdout.write("another process is sending now; it takes these with it")
            return
        files = " (to files: EMAIL_URL is not set)" if done["sent"] and settings.MAIL_SERVER is None else ""
        self.stdout.write(f"{_counts(done) or 'nothing is due'}{files}")
        if done["failed"] or done["due"] or done["in_doubt"]:
            raise CommandError("not every mail was taken: manage.py mail list tells why", returncode=1)

    def _list(self, _options: dict[str, Any]) -> None:
        rows = mailout.troubles()
        for row in rows:
            name = one_line(row.user.get_username())
            self.stdout.write(f"{row.id}  {row.state}  {row.kind} {row.ref}  to {name}, {row.tries} tries: {row.error}")
        if not rows:
            self.stdout.write("every mail was taken")

    def _again(self, options: dict[str, Any]) -> None:
        given = options["id"].lower()
        found = [row for row in MailSent.objects.filter(state__in=("failed", "in_doubt", "dropped"))
                 if len(given) >= FEWEST and str(row.id).startswith(given)]  # fmt: skip
        if len(found) != 1:
            raise CommandError(f"{len(found)} mails that were not sent have an id that begins so", returncode=2)
        mailout.again(found[0], datetime.now(UTC))
        self._send(options)

    def _test(self, options: dict[str, Any]) -> None:
        try:
            mailout.post(mailmake.trial(options["address"]))
        except NotWanted as why:
            raise CommandError(str(why), returncode=2) from None
        except (MailRefused, Unsure) as why:
            raise CommandError(f"not sent: {why}", returncode=1) from None
        self.stdout.write(f"handed over, to {options['address']}")

    def _address(self, options: dict[str, Any]) -> None:
        user, address = _person(options["name"]), options["address"]
        try:
            if address:
                validate_email(address)
        except ValidationError:
            raise CommandError(f"{one_line(address)!r} is no e-mail address", returncode=2) from None
        user.email = address
        user.save(update_fields=["email"])


def _week(text: str | None, now: datetime) -> Days:
    if not text:
        return mailweek.week_before(now, site())
    try:
        return mailweek.days_of(text)
    except ValueError as error:
        raise CommandError(f"--week: {error}", returncode=2) from None


def _person(name: str) -> Any:
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"there is no user {name!r}", returncode=2)
    return user


def _check(user: Any) -> None:
    try:
        mailmake.may_have(user, WEEKLY)
    except NotWanted as why:
        raise CommandError(f"not sent: {why}", returncode=1) from None


def _counts(done: Counter[str]) -> str:
    words = {"due": "to be tried again", "in_doubt": "in doubt", "dropped": "not sent any more"}
    return ", ".join(f"{number} {words.get(state, state)}" for state, number in sorted(done.items()))

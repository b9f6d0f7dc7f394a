"""`manage.py source add slurmrestd NAME --url --token-file`: where records come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import projector
from events.access import Scope
from events.deliveries import drain
from events.reports import BadParameter, named_zone
from fleet import actions, queries
from fleet.actions import BadSource
from fleet.queries import SourceState
from jobs import pulls

_WEBHOOK = """{name}: the cluster {cluster} is declared; what it posts is taken from now on.
 1. Make a token (shown once):   manage.py token {name} --scope events:write
 2. In slurm.conf of {cluster}:
      JobCompType=jobcomp/elasticsearch
      JobCompLoc=http://slurm:TOKEN@THIS-HOST:8000/api/v1/ingest/slurm/jobcomp
    then restart slurmctld. Slurm keeps what it cannot post and tries again.
 3. Hooks, for GPU indices and starts within a second: deploy/slurm
See how it goes:   manage.py source list"""

_VERBS = {
    "check": "ask it now and say what came",
    "pause": "stop asking it",
    "resume": "go on where it stopped",
    "remove": "forget it; what it brought stays",
}


class Command(BaseCommand):
    """Set up, list, try, pause and remove sources."""

    help = "Where records come from: add, list, check, pause, resume, remove. Adding one declares its cluster."

    def add_arguments(self, parser: CommandParser) -> None:
        """One subcommand each."""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        add = verbs.add_parser("add", help="set up a source").add_subparsers(dest="kind", required=True, metavar="KIND")
        pulled = add.add_parser("slurmrestd", help="a slurmrestd that is asked for its jobs")
        pulled.add_argument("name", metavar="NAME")
        pulled.add_argument("--url", required=True, help="its address, such as http://head:6820")
        pulled.add_argument("--token-file", required=True, metavar="FILE", help="holds what `scontrol token` prints")
        pulled.add_argument("--user", default="", help="user name to send (a token of Slurm 22.05 needs its own)")
        pulled.add_argument("--cluster", default="", help="Slurm's ClusterName; NAME by default")
        pulled.add_argument("--every", type=int, default=10, metavar="SECONDS", help="how often (default 10)")
        pulled.add_argument("--from", dest="since", default="", metavar="D", help="accounting from here; 30 days ago")
        pulled.add_argument("--no-accounting", action="store_true", help="there is no slurmdbd")
        posts = add.add_parser("webhook", help="a Slurm that posts (jobcomp, hooks, sacct)")
        posts.add_argument("name", metavar="NAME")
        posts.add_argument("--cluster", default="", help="Slurm's ClusterName; NAME by default")
        verbs.add_parser("list", help="all sources and how they go")
        for verb, text in _VERBS.items():
            verbs.add_parser(verb, help=text).add_argument("name", metavar="NAME")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Exit 2 when called wrongly, 1 when a check fails."""
        try:
            getattr(self, f"_{options['verb']}")(options)
        except BadSource as bad:
            raise CommandError(f"{bad.name}: {bad.text}", returncode=2) from None

    def _add(self, options: dict[str, Any]) -> None:
        name, cluster = options["name"], options["cluster"] or options["name"]
        if options["kind"] == "webhook":
            actions.add_webhook(name, cluster=cluster, actor="source")
            projector.catch_up()
            self.stdout.write(_WEBHOOK.format(name=name, cluster=cluster))
            return
        source = actions.add_pulled(
            name,
            url=options["url"],
            token_file=options["token_file"],
            cluster=cluster,
            user=options["user"],
            every=options["every"],
            since=_since(options["since"]),
            accounting=not options["no_accounting"],
            actor="source",
        )
        projector.catch_up()
        self.stdout.write(
            f"{name}: {source.url} is asked every {source.every_seconds} s while the worker runs, its accounting from "
            f"{source.watermark:%Y-%m-%d %H:%MZ} on. Try it: manage.py source check {name}"
        )
        if Path(source.token_file).stat().st_mode & 0o077:
            self.stderr.write(f"{source.token_file}: others on this machine can read it; chmod 600 keeps it to you")

    def _list(self, _: dict[str, Any]) -> None:
        found = queries.sources(Scope.everything())
        if not found:
            self.stdout.write("no source yet: manage.py source add slurmrestd NAME --url URL --token-file FILE")
        for state in found:
            self.stdout.write("\t".join(_pulled(state) if state.name else _posted(state)))

    def _check(self, options: dict[str, Any]) -> None:
        name = options["name"]
        if actions.find(name).kind != actions.PULLED:
            raise BadSource("NAME", f"{name} posts by itself and cannot be asked; manage.py source list tells the last")
        try:
            done = pulls.pull(name)
        except pulls.Busy:
            raise CommandError(f"{name}: the worker is asking it right now; try again", returncode=1) from None
        if done.versions:
            self.stdout.write(f"{name}: {done.versions}")
            self.stdout.write(f"jobs: {done.shown} shown, {done.running} running, {done.changed} new or changed")
            self.stdout.write(
                f"accounting: {done.accounted} records in {done.slices} slices, {done.new} new or changed"
            )
        if done.behind:
            self.stdout.write(f"accounting is fetched up to {actions.find(name).watermark:%Y-%m-%d %H:%MZ}; it goes on")
        while drain():
            projector.catch_up()
        if done.troubles:
            raise CommandError(f"{name}: " + "; ".join(done.troubles), returncode=1)

    def _pause(self, options: dict[str, Any]) -> None:
        actions.pause(options["name"], paused=True)
        self.stdout.write(f"{options['name']} is not asked any more; nothing is lost: resume goes on where it stopped")

    def _resume(self, options: dict[str, Any]) -> None:
        actions.pause(options["name"], paused=False)
        self.stdout.write(f"{options['name']} is asked again")

    def _remove(self, options: dict[str, Any]) -> None:
        actions.remove(options["name"])
        self.stdout.write(f"{options['name']} is removed; what it brought stays")


def _since(text: str) -> datetime:
    if not text:
        return datetime.now(UTC) - timedelta(days=30)
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=named_zone(queries.site().timezone))).astimezone(UTC)
    except (ValueError, OverflowError, BadParameter):
        raise BadSource("--from", f"{text[:40]}: expected a date or an RFC 3339 time") from None


def _pulled(state: SourceState) -> list[str]:
    if not state.url:
        return [state.name, state.kind, state.cluster, "posts by itself"]
    how = "paused" if state.paused else f"every {state.every_seconds} s"
    told = [state.name, state.kind, state.cluster, state.url, how, f"{state.pulls} pulls, {state.records} records"]
    if state.watermark:
        told.append(f"accounting to {state.watermark:%Y-%m-%d %H:%MZ}")
    told.append(f"ok {state.silent_seconds} s ago" if state.silent_seconds is not None else "never answered")
    return [*told, f"FAILING: {state.last_error}"] if state.failing else told


def _posted(state: SourceState) -> list[str]:
    told = [state.source, state.kind, f"{state.deliveries} deliveries"]
    told.append(f"{state.accepted} accepted, {state.duplicate} duplicate, {state.rejected} rejected")
    told += [f"{state.waiting} waiting"] if state.waiting else []
    told.append(f"last {state.silent_seconds} s ago" if state.silent_seconds is not None else "never")
    return [*told, f"last refusal: {state.last_error}"] if state.last_error else told

"""What an operator says of sources: set up, paused, removed. The token stays in its file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from django.db import transaction

from events.actions import declare_cluster
from events.types import REGISTRY
from events.types.clusters import ClusterDeclared
from fleet.models import Source
from fleet.scheduler import BadUrl, check_url

__all__ = ["PULLED", "BadSource", "add_pulled", "add_webhook", "find", "pause", "read_token", "remove"]

PULLED: Final = "slurmrestd"
WEBHOOK: Final = "webhook"


@dataclass(frozen=True)
class BadSource(Exception):
    """A source that cannot be set up or asked; `name` of the parameter, and a text for a person."""

    name: str
    text: str


def add_pulled(
    name: str,
    *,
    url: str,
    token_file: str,
    cluster: str,
    user: str,
    every: int,
    since: datetime,
    accounting: bool,
    actor: str,
) -> Source:
    """Set up a slurmrestd to be asked every so many seconds, and declare its cluster. Raises BadSource.

    since: from when on its accounting is fetched. accounting: False for a Slurm without slurmdbd.
    """
    if not 1 <= every <= 3600:
        raise BadSource("--every", "expected 1 to 3600 seconds")
    try:
        address = check_url(url)
    except BadUrl as error:
        raise BadSource("--url", str(error)) from None
    read_token(token_file)
    return _add(
        Source(
            name=name,
            kind=PULLED,
            cluster=cluster,
            url=address,
            token_file=str(Path(token_file).resolve()),
            user=user,
            every_seconds=every,
            accounting=accounting,
            watermark=since,
            trail=since,
            trail_next=since,
        ),
        actor,
    )


def add_webhook(name: str, *, cluster: str, actor: str) -> Source:
    """Declare the cluster of a Slurm that posts to us, and list it before its first post. Raises BadSource."""
    return _add(Source(name=name, kind=WEBHOOK, cluster=cluster), actor)


def _add(source: Source, actor: str) -> Source:
    for field, value in (("NAME", source.name), ("--cluster", source.cluster)):
        try:
            REGISTRY.get("cluster.declared").check(ClusterDeclared(cluster=value))
        except ValueError:
            raise BadSource(field, "expected 1 to 160 characters without a slash") from None
    with transaction.atomic():
        if Source.objects.filter(name=source.name).exists():
            raise BadSource("NAME", f"there is a source {source.name!r} already: remove it first, or choose another")
        declare_cluster(source.cluster, actor=actor)
        source.save(force_insert=True)
    return source


def read_token(path: str) -> str:
    """The token in a file, read anew each time, so that it can be replaced while we run. Raises BadSource."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadSource("--token-file", f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadSource("--token-file", f"{path} holds no token") from None
    token = text.removeprefix("SLURM_JWT=").strip()
    if not token or len(token.split()) != 1:
        raise BadSource("--token-file", f"{path} holds no token: put in what `scontrol token` prints")
    return token


def find(name: str) -> Source:
    """The source of this name. Raises BadSource."""
    found = Source.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(Source.objects.order_by("name").values_list("name", flat=True)) or "none yet"
        raise BadSource("NAME", f"there is no source {name!r}; there are: {known}")
    return found


def pause(name: str, paused: bool) -> None:
    """Stop asking it, or go on; what was missed meanwhile is fetched. Raises BadSource."""
    find(name)
    Source.objects.filter(name=name).update(paused=paused, failures=0)


def remove(name: str) -> None:
    """Forget it; what it brought stays. Raises BadSource."""
    find(name).delete()

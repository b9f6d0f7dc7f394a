"""`POST /api/v1/ingest/slurm/...`, `alertmanager` and `redfish`: what Slurm, the people around it, Alertmanager and
management controllers post, kept as sent and translated afterwards.

A body is durable before the answer and worked on later, so an answer takes a millisecond and says nothing of the
records. The token may come as Bearer, as the password of HTTP Basic (`http://any:TOKEN@host/...`) or as `?token=`:
jobcomp/elasticsearch can send no header. It is read and forgotten: neither the delivery nor any log line holds it.

jobcomp and hooks are answered 200 whatever their body says. jobcomp/elasticsearch posts a body again every 30 s
until it is answered 200 or 201, for ever: a body that cannot be read would be sent again without end and be kept
in slurmctld's state file. It is kept here instead, as a Rejection that a person sees. What was not kept (401, 413,
503) is refused, so that Slurm keeps it until the token, the bound or the database is mended. Alertmanager and
controllers are answered 200 likewise: Alertmanager drops what is answered 4xx for ever, and sends again after 5xx.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import msgspec
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from api import bodies
from api.auth import secret_of
from api.bodies import Refuse, admitted
from api.errors import unavailable, unforeseen
from api.scopes import EVENTS_WRITE
from events.deliveries import accept_delivery, overloaded
from events.intake import LogBusy

__all__ = ["DOORS", "REST_KINDS", "door_of", "post_webhook"]

REST_KINDS: Final = ("slurmdb-jobs", "slurmctld-jobs", "squeue-json", "slurm-nodes")
_SOURCES: Final = {
    "jobcomp": "jobcomp",
    "slurm-hook": "hook",
    "sacct-json": "sacct",
    "sacct-text": "sacct",
    "slurmdb-jobs": "slurmdbd",
    "slurmctld-jobs": "slurmctld",
    "squeue-json": "slurmctld",
    "slurm-nodes": "slurmctld",
    "alertmanager": "alertmanager",
    "redfish": "redfish",
}
"""Kind of a delivery -> first part of its source."""
_PATH: Final = re.compile(
    r"^/api/v1/ingest/(?:slurm/(?:(jobcomp)(?:/.*)?|(hook|sacct|rest)/?)|(alertmanager|redfish)/?)$", re.DOTALL
)
_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,160}\Z")
_answer: Final = msgspec.json.Encoder()


class _Job(msgspec.Struct, gc=False):
    """What tells one kind of job record from another."""

    cluster: Any = None
    time: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    job_state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Document(msgspec.Struct, gc=False):
    """What a body says of itself: the cluster, and what kind of document it is."""

    cluster: Any = None
    SLURM_CLUSTER_NAME: Any = None
    env: Any = None
    meta: Any = None
    jobs: list[_Job] | None = None
    nodes: Any = None


class _Found(NamedTuple):
    """Kind of a delivery, and the cluster that the body names ('' if it names none)."""

    kind: str
    cluster: str


_document: Final = msgspec.json.Decoder(_Document)


@csrf_exempt
def post_webhook(request: HttpRequest, door: str) -> HttpResponse:
    """Keep one body. `door`: one of DOORS. 202 from sacct and rest, 200 from all others."""
    try:
        caller = admitted(_secret(request), EVENTS_WRITE)
        headers = _chosen(request)
        raw = bodies.unpacked(request)
        if overloaded():
            return unavailable(LogBusy("too many deliveries wait"), wait=5)
        found = DOORS[door](request.GET, headers, raw)
        cluster = headers.get("x-hallbook-cluster") or found.cluster
        source = _SOURCES[found.kind]
        kept = accept_delivery(
            source=f"{source}:{cluster}" if cluster else source,
            kind=found.kind,
            content_type=_media_type(request),
            headers=headers,
            body=raw,
            actor=caller.actor,
        )
    except Refuse as refused:
        return refused.response
    except (LogBusy, OperationalError, InterfaceError) as error:
        return unavailable(error)
    except Exception as error:  # noqa: BLE001 - also what nobody foresaw is answered by a problem document
        return unforeseen(error, "post_webhook")
    bodies.wake()
    if door == "hook":
        bodies.ask()
    said = {"delivery": kept, "kind": found.kind}
    status = 202 if door in ("sacct", "rest") else 200
    return HttpResponse(_answer.encode(said), status=status, content_type="application/json")


def door_of(path: str) -> str | None:
    """The door that an address leads to; jobcomp takes any tail, since Slurm puts an index name behind its URL."""
    found = _PATH.match(path)
    return (found[1] or found[2] or found[3]) if found else None


def _secret(request: HttpRequest) -> str | None:
    """The token, from a header or from the address. Old plugins put `/slurm/jobcomp` behind the whole URL."""
    secret = secret_of(request)
    if secret is None and "token" in request.GET:
        return str(request.GET["token"]).partition("/")[0]
    return secret


def _media_type(request: HttpRequest) -> str:
    return str(request.META.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()[:200]


def _chosen(request: HttpRequest) -> dict[str, str]:
    """The few headers that a delivery keeps. Raises Refuse for a cluster, node or zone that can be none."""
    chosen = {}
    for place in ("cluster", "node"):
        if (name := request.GET.get(place, "")) != "":
            if not _NAME.match(name):
                raise Refuse(400, f"{place}: a name of 1 to 160 characters without a slash", **_at(place))
            chosen[f"x-hallbook-{place}"] = name
    if (zone := request.GET.get("timezone", "")) != "":
        _check_zone(zone)
        chosen["x-hallbook-timezone"] = zone
    if (changes := request.GET.get("changes", "")) != "":
        if not (changes.isascii() and changes.isdecimal() and len(changes) <= 11):
            text = "the time at which the list was looked at, in epoch seconds; 0 where each job says it itself"
            raise Refuse(400, f"changes: {text}", **_at("changes", text))
        chosen["x-hallbook-changes"] = changes
    hook = request.META.get("HTTP_X_SLURM_HOOK", "")
    return {**chosen, "x-slurm-hook": hook} if _NAME.match(hook) else chosen


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        text = "not in the tz database (such as Europe/Berlin or UTC)"
        raise Refuse(400, f"timezone: {text}", **_at("timezone", text)) from None


def _at(parameter: str, text: str = "") -> dict[str, Any]:
    return {"errors": [{"parameter": parameter, "text": text or "see detail"}]}


def _jobcomp(_query: Mapping[str, str], _headers: Mapping[str, str], raw: bytes) -> _Found:
    said = _read(raw)
    return _Found("jobcomp", _name(said.cluster) if said else "")


def _hook(_query: Mapping[str, str], _headers: Mapping[str, str], raw: bytes) -> _Found:
    if raw[:1] != b"{":  # a form; a long one is no hook's
        form = parse_qs(raw[:65536].decode("utf-8", "replace"), max_num_fields=None)
        return _Found("slurm-hook", _name(form.get("SLURM_CLUSTER_NAME", [""])[0]))
    said = _read(raw)
    env = said.env if said and isinstance(said.env, dict) else {}
    return _Found("slurm-hook", _name(env.get("SLURM_CLUSTER_NAME") or (said and said.SLURM_CLUSTER_NAME)))


def _sacct(_query: Mapping[str, str], headers: Mapping[str, str], raw: bytes) -> _Found:
    if raw.lstrip()[:1] == b"{":
        said = _whole(raw)
        if said.jobs is None:
            raise Refuse(400, "the document has no list `jobs`: send what `sacct --json` prints", pointer="/jobs")
        return _Found("sacct-json", _first_cluster(said))
    if not raw.strip():
        raise Refuse(400, "the body is empty", pointer="")
    for name in ("cluster", "timezone"):
        if f"x-hallbook-{name}" not in headers:
            text = f"give ?{name}=, which the text of sacct does not tell"
            raise Refuse(400, text, **_at(name, text))
    return _Found("sacct-text", "")


def _rest(query: Mapping[str, str], _headers: Mapping[str, str], raw: bytes) -> _Found:
    said = _whole(raw)
    kind = query.get("kind", "")
    if kind and kind not in REST_KINDS:
        text = f"there are {', '.join(REST_KINDS)}"
        raise Refuse(400, f"kind: {text}", **_at("kind", text))
    if said.jobs is None and isinstance(said.nodes, list):
        return _Found("slurm-nodes", "")
    if said.jobs is None:
        text = (
            "the document has no list `jobs` or `nodes`: those of slurmrestd's /slurm and /slurmdb, of `squeue --json`"
            " and of `scontrol show nodes --json` are taken"
        )
        raise Refuse(422, text, pointer="/jobs")
    return _Found(kind or _shape(said), _first_cluster(said))


def _alertmanager(_query: Mapping[str, str], _headers: Mapping[str, str], _raw: bytes) -> _Found:
    return _Found("alertmanager", "")  # each alert names its cluster


def _redfish(_query: Mapping[str, str], _headers: Mapping[str, str], _raw: bytes) -> _Found:
    return _Found("redfish", "")  # the subscription's context does


DOORS: Final[dict[str, Callable[[Mapping[str, str], Mapping[str, str], bytes], _Found]]] = {
    "jobcomp": _jobcomp,
    "hook": _hook,
    "sacct": _sacct,
    "rest": _rest,
    "alertmanager": _alertmanager,
    "redfish": _redfish,
}
"""Door -> what a body is: its kind, and the cluster it names."""


def _shape(said: _Document) -> str:
    """By the records, where there are some: slurmdbd nests its times; else by the plugin or command that it names."""
    first = said.jobs[0] if said.jobs else None
    meta = said.meta if isinstance(said.meta, dict) else {}
    if first is not None and first.job_state is msgspec.UNSET and first.time is not msgspec.UNSET:
        return "slurmdb-jobs"
    if first is None and "db" in str(meta.get("plugin", meta.get("Plugin", ""))):
        return "slurmdb-jobs"
    command = meta.get("command")
    return "squeue-json" if isinstance(command, list) and "squeue" in str(command[:1]) else "slurmctld-jobs"


def _whole(raw: bytes) -> _Document:
    """The document. Raises Refuse with the place where it is no JSON."""
    try:
        return _document.decode(raw)
    except msgspec.ValidationError as error:
        raise Refuse(422, f"not a document of jobs: {error}", pointer="/jobs") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = "the body is empty" if not raw.strip() else f"the body is not JSON: {error}"
        raise Refuse(400, text, pointer="") from None


def _read(raw: bytes) -> _Document | None:
    """What can be read of it: names of jobs may hold bytes that are no UTF-8, and Slurm passes them on."""
    for text in (raw, raw.decode("utf-8", "replace")):
        try:
            return _document.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return None


def _first_cluster(said: _Document) -> str:
    return next((name for job in said.jobs or () if (name := _name(job.cluster))), "")


def _name(value: object) -> str:
    """A cluster's name, '' where it is none; a list of its own for each sender is not to be had by bad bodies."""
    return value if isinstance(value, str) and _NAME.match(value) else ""

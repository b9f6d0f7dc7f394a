"""What Slurm's prologs and epilogs tell on their way, to sightings of the job they run for.

Bodies: JSON `{"hook", "host", "time", "args", "env": {...}}`, a flat JSON object of the environment, or the
environment as a form; the flat ones name hook, time and host as HALLBOOK_HOOK, HALLBOOK_TIME, HALLBOOK_HOST.

| hook | runs | says |
|---|---|---|
| Prolog | once per node | the job runs since about now; which GPUs of this node it has |
| PrologSlurmctld | once per job | the same for the whole job, with its name; no GPUs |
| Epilog | once per node | this node is free (state COMPLETING; `node_list` is this node): the job may go on elsewhere |
| EpilogSlurmctld | once per job | the run is over; its exit code, and never why (state UNKNOWN) |

Their times are those of the script, 0 to 2 s after the scheduler's, but for SLURM_JOB_START_TIME (Slurm 23.02 and
later) and the end time of EpilogSlurmctld, which are the scheduler's own where they do not lie ahead.
SLURM_JOB_RESTART_COUNT counts requeues before a run; but an epilog of a run that is being requeued counts that
one already, so of an epilog only the count 0 names its run, and a higher one is left out.

Hooks of tasks and of srun tell of steps, node triggers of nodes: they are kept in their delivery and give no
event. SLURM_JOB_DERIVED_EC has no place in a sighting.
"""

from __future__ import annotations

import math
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from events.adapters import Draft, Refusal
from events.adapters import sacct_values as values
from events.adapters.documents import Fields, read_object
from events.adapters.hostlist import numbers, ranges
from events.adapters.runs import run_of
from events.adapters.sacct_values import Bad, shown
from events.adapters.slurm_values import wait_status
from events.types.jobs import JobReported
from events.validate import refusal

__all__ = ["translate"]

_JOB_HOOKS: Final = frozenset({"prolog", "epilog", "prologslurmctld", "epilogslurmctld"})
_OTHER_HOOKS: Final = frozenset({"taskprolog", "taskepilog", "srunprolog", "srunepilog"})
_CONTEXTS: Final = {
    "prolog_slurmd": "prolog", "epilog_slurmd": "epilog", "prolog_slurmctld": "prologslurmctld",
    "epilog_slurmctld": "epilogslurmctld", "prolog_task": "taskprolog", "epilog_task": "taskepilog",
    "prolog_srun": "srunprolog", "epilog_srun": "srunepilog",
}  # fmt: skip
"""SLURM_SCRIPT_CONTEXT, which Slurm sets by itself."""
_CPUS: Final = re.compile(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?")
_LONGEST: Final = 400
_LATEST: Final = 253402300799
_MOST_FIELDS: Final = 5_000
_SLACK: Final = 5
"""Seconds by which the scheduler's clock may be ahead of a node's."""


class _Hook(NamedTuple):
    """One call of a script: its name, when (microseconds since 1970) and where it ran, and its environment."""

    name: str
    at_us: int
    host: str
    env: Fields

    @property
    def at(self) -> int:
        return self.at_us // 1_000_000


def translate(content_type: str, headers: Mapping[str, str], body: bytes) -> list[Draft | Refusal]:
    """The sighting of one call of a hook, or none where it tells nothing about a job.

    The cluster is SLURM_CLUSTER_NAME, else that of the header `x-hallbook-cluster`.
    """
    try:
        hook = _read(content_type, headers, body)
        return [] if hook is None else [_draft(hook, headers)]
    except Bad as bad:
        return [refusal(0, f"/{bad.pointer}" if bad.pointer else "", bad.code, bad.text, body)]


def _read(content_type: str, headers: Mapping[str, str], body: bytes) -> _Hook | None:
    said = _form(body) if _is_form(content_type, body) else read_object(body)
    inner = said.get("env")
    env = Fields(inner if isinstance(inner, dict) else said)
    outer = Fields(said)
    name = _name(outer, env, headers)
    if name not in _JOB_HOOKS:
        return None
    host = env.text("SLURMD_NODENAME") or outer.text("host") or env.text("HALLBOOK_HOST")
    return _Hook(name, _moment(said, env), host, env)


def _is_form(content_type: str, body: bytes) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        # curl says so of whatever it posts, unless it is told otherwise.
        return not body.lstrip().startswith(b"{")
    return "json" not in kind and not body.lstrip().startswith(b"{")


def _form(body: bytes) -> dict[str, Any]:
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("utf-8", "replace").strip(), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise Bad("malformed", f"the form cannot be read: {error}") from None
    if not pairs:
        raise Bad("malformed", "the body is empty; expected the environment of a hook as a form or as JSON")
    return dict(pairs)


def _name(outer: Fields, env: Fields, headers: Mapping[str, str]) -> str:
    """The hook's name as of `prologslurmctld`; what is no hook of a job is checked too."""
    told = outer.text("hook") or env.text("HALLBOOK_HOOK") or headers.get("x-slurm-hook", "")
    name = _CONTEXTS.get(env.text("SLURM_SCRIPT_CONTEXT"), "") if not told else re.sub(r"[^a-z]", "", told.lower())
    if name in _JOB_HOOKS or name in _OTHER_HOOKS or name.startswith("trigger"):
        return name
    known = "Prolog, Epilog, PrologSlurmctld, EpilogSlurmctld"
    raise Bad(
        "unknown_hook", f"{shown(told)} is no hook that is known; expected {known}, a task hook or trigger_...", "hook"
    )


def _moment(said: Mapping[str, Any], env: Fields) -> int:
    """When the script ran, microseconds since 1970."""
    told = said.get("time")
    text = str(told) if isinstance(told, int | float) and not isinstance(told, bool) else Fields(said).text("time")
    text = text or env.text("HALLBOOK_TIME")
    try:
        seconds = float(text) if text and len(text) <= 30 else math.nan
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LATEST:
        raise Bad("time_missing", f"the time of the hook is {shown(text)}; expected seconds since 1970", "time")
    return round(seconds * 1_000_000)


def _draft(hook: _Hook, headers: Mapping[str, str]) -> Draft:
    env = hook.env
    cluster = env.parsed("SLURM_CLUSTER_NAME", values.label) or values.label(headers.get("x-hallbook-cluster", ""))
    if cluster is None:
        raise Bad(
            "cluster_missing", "SLURM_CLUSTER_NAME is missing and the source names no cluster", "SLURM_CLUSTER_NAME"
        )
    job_id = env.number_text("SLURM_JOB_ID") or env.number_text("SLURM_JOBID")
    if job_id in (None, "0"):
        raise Bad("identity_missing", "SLURM_JOB_ID is missing; a hook of a job is expected to have it", "SLURM_JOB_ID")
    source = "epilogslurmctld" if hook.name == "epilogslurmctld" else "hook"
    place = hook.host if hook.name in ("prolog", "epilog") else ""
    key = f"{cluster}/{job_id}/{hook.name}/{place}"[:_LONGEST]
    data = JobReported(cluster=cluster, job_id=str(job_id), **_who(env), **_what(hook))
    return Draft("job.reported", data, key, hook.at_us, 0, source=f"{source}:{cluster}")


def _who(env: Fields) -> dict[str, Any]:
    """What all hooks of a job tell about it."""
    comment = env.parsed("SLURM_JOB_COMMENT", values.free)
    nodes = env.whole("SLURM_JOB_NUM_NODES") or None
    het = env.number_text("SLURM_HET_JOB_ID") or env.number_text("SLURM_PACK_JOB_ID")
    offset = env.whole("SLURM_HET_JOB_OFFSET")
    return {
        "account": env.parsed("SLURM_JOB_ACCOUNT", values.label),
        "user": env.parsed("SLURM_JOB_USER", values.label),
        "partition": env.parsed("SLURM_JOB_PARTITION", values.short),
        "qos": env.parsed("SLURM_JOB_QOS", values.short),
        "name": env.parsed("SLURM_JOB_NAME", values.free),
        "comment": comment,
        "run": run_of(comment),
        "nodes": nodes,
        "cpus": _cpus(env.text("SLURM_JOB_CPUS_PER_NODE"), nodes),
        "array_job_id": env.number_text("SLURM_ARRAY_JOB_ID"),
        "array_task": env.number_text("SLURM_ARRAY_TASK_ID"),
        "het_job_id": het,
        "het_offset": offset if het else None,
    }


def _what(hook: _Hook) -> dict[str, Any]:
    """What this hook tells: that the job runs, that a node is free, or that the run is over."""
    env = hook.env
    start, restarts = _before(env, "SLURM_JOB_START_TIME", hook.at), env.whole("SLURM_JOB_RESTART_COUNT")
    nodes = env.text("SLURM_JOB_NODELIST") or env.text("SLURM_NODELIST") or None
    if hook.name.startswith("prolog"):
        indices = _indices(hook) if hook.name == "prolog" else ()
        began = hook.at if start is None else start
        return {"state": "RUNNING", "start": began, "restarts": restarts, "node_list": nodes, "gpu_indices": indices}
    said = {"start": start, "restarts": 0 if restarts == 0 else None}
    if hook.name == "epilog":
        return {
            **said,
            "state": "COMPLETING",
            "end": hook.at,
            "node_list": hook.host or None,
            "gpu_indices": _indices(hook),
        }
    told = _before(env, "SLURM_JOB_END_TIME", hook.at)
    end = told if told is not None and told >= (start or hook.at - _SLACK) else hook.at
    code, signal = _exit(env)
    return {**said, "state": "UNKNOWN", "end": end, "node_list": nodes, "exit_code": code, "exit_signal": signal}


def _before(env: Fields, name: str, at: int) -> int | None:
    """A time of the scheduler that has passed; an end that is only expected, and 0, are none."""
    told = env.whole(name)
    return min(told, at) if told and told <= at + _SLACK else None


def _exit(env: Fields) -> tuple[int | None, int | None]:
    found = env.parsed("SLURM_JOB_EXIT_CODE2", values.exit_code)
    if found is not None:
        return found
    status = env.whole("SLURM_JOB_EXIT_CODE")
    return (None, None) if status is None else wait_status(status)


def _cpus(text: str, nodes: int | None) -> int | None:
    """CPUs of all nodes from `64(x8)` or `64(x2),32`; None when they do not add up to the job's nodes."""
    found = [_CPUS.fullmatch(part) for part in text.split(",")] if text and len(text) < 100_000 else []
    pairs = [(int(one[1]), int(one[2] or 1)) for one in found if one]
    if not pairs or len(pairs) != len(found) or sum(times for _, times in pairs) != nodes:
        return None
    return sum(cpus * times for cpus, times in pairs)


def _indices(hook: _Hook) -> tuple[str, ...]:
    """`("gpu001=0-3,6",)`: SLURM_JOB_GPUS holds numbers, ranges or UUIDs; too long a list is left out."""
    gpus = hook.env.text("SLURM_JOB_GPUS").replace(" ", "")
    if not gpus or not hook.host or "=" in hook.host:
        return ()
    try:
        gpus = ranges(numbers(gpus))
    except ValueError:
        gpus = ",".join(sorted(set(filter(None, gpus.split(",")))))
    entry = f"{hook.host}={gpus}"
    return (entry,) if gpus and len(entry) <= _LONGEST else ()

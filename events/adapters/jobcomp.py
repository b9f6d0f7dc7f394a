"""What Slurm's plugin jobcomp/elasticsearch posts about a job, to a sighting (fields of Slurm 20.11 to 25.11).

Rules that a reader of the figures needs:

* Times are UTC without a mark, limits are seconds. CPUs, nodes and GPUs come from `tres_alloc`; without it CPUs
  and nodes are `total_cpus` and `total_nodes`, and GPUs are not known.
* The post of a part that a resize closed (RESIZING) has the resize as its start and an elapsed time that is
  wrong: it keeps no start. What follows a resize has the resize as its start too, but its `elapsed` counts from
  the real start, so the start is end - elapsed.
* A job cancelled before it started has its end as start (or `Unknown`) and no nodes: it keeps its end only.
* At a requeue the state is PENDING with the times of the closed run. It is kept as told; the fold knows what it
  means (`events/derive/sightings.py`). Nothing tells the restart count or the number of the record.
* A post is repeated until it is answered with 200 or 201: the same body is the same sighting.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Final, NamedTuple

from events.adapters import Draft, Refusal
from events.adapters import sacct_values as values
from events.adapters.documents import Fields, read_object
from events.adapters.runs import run_of
from events.adapters.sacct_values import Bad, Tres, shown
from events.types.jobs import JobReported
from events.validate import refusal

__all__ = ["translate"]

_EPOCH: Final = values.Clock(UTC).epoch
_UNPLACED: Final = frozenset(("", "None assigned", "(null)"))
_NOTHING: Final = Tres(None, None, None, ())


class _Span(NamedTuple):
    submit: int | None
    start: int | None
    end: int | None


def translate(_content_type: str, headers: Mapping[str, str], body: bytes) -> list[Draft | Refusal]:
    """The one record of a post. The cluster is the body's, else that of the header `x-hallbook-cluster`."""
    try:
        return [_draft(Fields(read_object(body)), headers)]
    except Bad as bad:
        return [refusal(0, f"/{bad.pointer}" if bad.pointer else "", bad.code, bad.text, body)]


def _draft(said: Fields, headers: Mapping[str, str]) -> Draft:
    cluster = said.parsed("cluster", values.label) or values.label(headers.get("x-hallbook-cluster", ""))
    if cluster is None:
        raise Bad(
            "cluster_missing",
            "no cluster is named; set ClusterName and accounting, or name it at the source",
            "cluster",
        )
    job_id = said.whole("jobid")
    if not job_id:
        raise Bad("identity_missing", "jobid is missing; expected the job's number", "jobid")
    data = _report(said, cluster, str(job_id))
    known = [instant for instant in (data.submit, data.start, data.end) if instant is not None]
    if not known:
        raise Bad("time_missing", "none of @submit, @start and @end is known", "@end")
    key = f"{cluster}/{job_id}/{data.submit or known[0]}"
    return Draft("job.reported", data, key, max(known) * 1_000_000, 0, source=f"jobcomp:{cluster}")


def _report(said: Fields, cluster: str, job_id: str) -> JobReported:
    state = said.parsed("state", values.state) or "UNKNOWN"
    span = _span(said, state)
    size = _NOTHING if span.start is None and state != "RESIZING" else _size(said)
    code, signal = said.parsed("exit_code", values.exit_code) or (None, None)
    comment = said.parsed("comment", values.free)
    het = said.whole("het_job_id") or said.whole("pack_job_id") or None
    nodes = said.text("nodes")
    return JobReported(
        cluster=cluster,
        job_id=job_id,
        state=state,
        submit=span.submit,
        eligible=said.parsed("@eligible", _EPOCH),
        start=span.start,
        end=span.end,
        array_job_id=said.number_text("array_job_id"),
        array_task=said.number_text("array_task_id"),
        het_job_id=None if het is None else str(het),
        het_offset=None if het is None else said.whole("het_job_offset"),
        account=said.parsed("account", values.label),
        user=said.parsed("username", values.label),
        partition=said.parsed("partition", values.short),
        qos=said.parsed("qos", values.short),
        name=said.parsed("job_name", values.free),
        comment=comment,
        exit_code=code,
        exit_signal=signal,
        nodes=size.nodes,
        cpus=size.cpus,
        gpus=size.gpus,
        gpu_types=size.gpu_types,
        node_list=None if nodes in _UNPLACED else nodes,
        limit_seconds=said.whole("time_limit"),
        run=run_of(comment),
    )


def _span(said: Fields, state: str) -> _Span:
    submit, start, end = (said.parsed(name, _EPOCH) for name in ("@submit", "@start", "@end"))
    placed = said.text("nodes") not in _UNPLACED or said.text("tres_alloc")
    if state == "RESIZING" or (not placed and (end is None or start is None or start >= end)):
        return _Span(submit, None, end)
    if start is None or end is None:
        return _Span(submit, start, end)
    if end < start:
        text = f"@end {shown(said.text('@end'))} lies {start - end} s before @start {shown(said.text('@start'))}"
        raise Bad("negative_duration", text, "@end")
    elapsed = said.whole("elapsed") or 0
    longer = elapsed > end - start and end - elapsed >= (submit or 0)
    return _Span(submit, end - elapsed if longer else start, end)


def _size(said: Fields) -> Tres:
    told = said.parsed("tres_alloc", values.tres) or _NOTHING
    cpus = said.whole("total_cpus") if told.cpus is None else told.cpus
    return Tres(cpus, said.whole("total_nodes") if told.nodes is None else told.nodes, told.gpus, told.gpu_types)

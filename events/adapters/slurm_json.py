"""Slurm's JSON documents of jobs, from 22.05 to 25.11, to drafts: one call for each kind of delivery.

A document is `{"jobs": [...], "errors": [...], "meta": {...}}`. Its jobs are read one by one, so that a bad one is
refused with its place (`/jobs/17/time/end`) while the others are kept. Which of the two shapes a document has, of
accounting records or of jobs in the scheduler, is seen in its first job and not taken from its kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from events.adapters import Draft, Refusal, slurmctld, slurmdb
from events.adapters import sacct_values as values
from events.adapters.sacct_values import Bad, shown
from events.adapters.slurm_records import at, cluster_of, looked_at
from events.validate import UNREADABLE, pointer, refusal

__all__ = ["Jobs", "Teller", "sacct_json", "slurmctld_jobs", "slurmdb_jobs", "source_errors", "squeue_json"]

Items = list[Draft | Refusal]
Teller = Literal["sacct", "slurmdbd"]
_EXPECTED: Final = 'expected the JSON of sacct, squeue or slurmrestd: {"jobs": [...], ...}'
_FIELD: Final = re.compile(r"(?:missing required|unknown) field `(\w+)`")


class _Document(msgspec.Struct, gc=False):
    jobs: list[msgspec.Raw] | None = None
    errors: Any = None
    meta: msgspec.Raw = msgspec.Raw(b"{}")


class _Shape(msgspec.Struct, gc=False):
    """What tells a job of the scheduler from a record of the accounting."""

    job_state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_SHAPE: Final = msgspec.json.Decoder(_Shape)


def sacct_json(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """`sacct --json`."""
    return _translate("sacct", headers, body)


def slurmdb_jobs(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """slurmrestd `/slurmdb/v.../jobs`."""
    return _translate("slurmdbd", headers, body)


def slurmctld_jobs(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """slurmrestd `/slurm/v.../jobs`."""
    return _translate("slurmdbd", headers, body)


def squeue_json(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """`squeue --json`: the same jobs as slurmctld tells by REST."""
    return _translate("sacct", headers, body)


def _translate(teller: Teller, headers: Mapping[str, str], body: bytes) -> Items:
    try:
        document = _DOCUMENT.decode(body)
    except UNREADABLE as error:
        return [_no_document(error, body)]
    try:
        looked = looked_at(headers.get("x-hallbook-changes"))
        jobs = Jobs(teller, headers.get("x-hallbook-cluster", ""), cluster_of(document.meta), looked)
    except Bad as bad:
        return [refusal(0, "", bad.code, bad.text, body)]
    if document.jobs is None and not document.errors:
        return [refusal(0, "/jobs", "invalid", f"there is no list of jobs; {_EXPECTED}", body)]
    items: Items = []
    for index, raw in enumerate(document.jobs or ()):
        items += jobs.read(index, raw)
    return items + source_errors(document.errors, len(items))


def _no_document(error: Exception, body: bytes) -> Refusal:
    text, _, where = str(error).partition(" - at `$")
    if where or isinstance(error, msgspec.ValidationError):
        return refusal(0, pointer(where.rstrip("`")), "invalid", f"{text}; {_EXPECTED}", body)
    return refusal(0, "", "malformed", f"the body is not JSON ({text}); {_EXPECTED}", body)


def source_errors(errors: Any, index: int) -> list[Refusal]:
    """What a document says went wrong where it was made: with it, jobs are missing. None without errors.

    The rest of the document is no part of the refusal: it names the connection, another one at each request.
    """
    if not errors:
        return []
    first = errors[0] if isinstance(errors, list) else errors
    said = [str(first)]
    if isinstance(first, dict):
        said = [str(first[key]) for key in ("error", "description", "source") if first.get(key)] or said
    more = f" and {len(errors) - 1} more" if isinstance(errors, list) and len(errors) > 1 else ""
    text = f"Slurm answered with an error: {', '.join(said)[:400]}{more}; see the log of slurmrestd and its token"
    return [refusal(index, "/errors", "source_error", text, msgspec.json.encode(errors))]


class Jobs:
    """Reads the jobs of one document, given one by one.

    teller: who tells of records of the accounting; jobs of the scheduler only slurmctld can show. named: our
    name of the cluster, empty if only the document knows it. of_document: the name it gives as a whole. looked: as
    of slurmctld.read_job. Raises Bad when `named` cannot be a name.
    """

    def __init__(self, teller: Teller, named: str, of_document: str | None = None, looked: int | None = None) -> None:
        self._teller, self._looked = teller, looked
        self._named = values.label(named)
        self._of_document = of_document
        self._live: bool | None = None

    def read(self, index: int, raw: msgspec.Raw) -> Items:
        """Drafts of a job and its steps, or why there is none; index: its place in the list."""
        if self._live is None:
            self._live = _is_live(raw)
        try:
            if self._live:
                return [slurmctld.read_job(raw, self._cluster, index, self._looked)]
            draft, steps = slurmdb.read_job(raw, self._cluster, index, self._teller)
        except (Bad, *UNREADABLE) as error:
            return [_refused(index, f"/jobs/{index}", error, raw)]
        items: Items = [draft]
        for place, (told, step) in enumerate(steps):
            try:
                items.append(step())
            except (Bad, *UNREADABLE) as error:
                items.append(_refused(index, f"/jobs/{index}/steps/{place}", error, told))
        return items

    def _cluster(self, told: str | None) -> str:
        """Our name of the cluster that a job names. Raises Bad."""
        told = told or self._of_document
        if not told:
            if self._named is None:
                text = "no cluster is named; the job's `cluster` or the header x-hallbook-cluster is needed"
                raise Bad("cluster_missing", text, "/cluster")
            return self._named
        if self._named is not None and told != self._named:
            text = f"{shown(told)} is not {shown(self._named)}, of which jobs are expected here"
            raise Bad("cluster_mismatch", text, "/cluster")
        return at("/cluster", values.label, told) or told


def _is_live(raw: msgspec.Raw) -> bool:
    """Whether it is a job of the scheduler; a record of the accounting has an object `state` instead."""
    try:
        return _SHAPE.decode(raw).job_state is not msgspec.UNSET
    except UNREADABLE:
        return False


def _refused(index: int, place: str, error: Exception, raw: msgspec.Raw) -> Refusal:
    if isinstance(error, Bad):
        return refusal(index, place + error.pointer, error.code, error.text, bytes(raw))
    text, _, where = str(error).partition(" - at `$")
    found = _FIELD.search(text)
    at = place + pointer(where.rstrip("`")) + (f"/{found[1]}" if found else "")
    return refusal(index, at, "invalid", text, bytes(raw))

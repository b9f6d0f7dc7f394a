"""Slurm's accounting text (`sacct -P`) to sightings of jobs and steps, one line at a time.

Rules that a reader of the figures needs:

* CPUs are NCPUS, then AllocCPUS, then `cpu=` of AllocTRES; nodes are NNodes, then AllocNodes, then `node=`.
  GPUs come from AllocTRES alone, and are not known without it.
* A record never started when it has no Start, or when its NodeList is "None assigned" (or empty) and it
  ended at its Start or is still PENDING: sacct then repeats the end, or an estimate, as Start. It keeps its
  End, and Start, CPUs, nodes and GPUs are left out, as what stands there was asked for and never allocated.
* The hour that is repeated when summer time ends is read as its first pass, unless that puts a Start before
  its Submit or an End before its Start.
* A record's key is its DBIndex, or else its Submit: both stay while it goes from PENDING to COMPLETED.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from events.adapters import Draft, Refusal
from events.adapters import sacct_values as values
from events.adapters.runs import run_of
from events.adapters.sacct_columns import Plan, read_columns
from events.adapters.sacct_identity import Identity, read_identity
from events.adapters.sacct_values import Bad, Tres, shown
from events.adapters.slurm_records import NO_SIZE, UNPLACED, Span, at, key_of, occurred_us, settle, suspended_within
from events.adapters.textfiles import LINE_LIMIT, TooLong, Unreadable
from events.types.jobs import JobReported, StepReported

__all__ = ["Reader", "Unreadable", "open_sacct"]

_FIELD_LIMIT: Final = 1 << 16


def open_sacct(first_line: str, *, cluster: str, zone: tzinfo, delimiter: str = "|") -> Reader:
    """A reader for the file whose first line (not blank) is given; that line is then read like all others.

    cluster: our name of the cluster. zone: time zone of the file's local times (epoch times need none).
    Raises Unreadable when the file as a whole is no sacct text, and ValueError on a bad cluster or delimiter.
    """
    try:
        named = values.label(cluster)
    except Bad as bad:
        raise ValueError(f"cluster: {bad.text}") from None
    if named is None or not delimiter or set(delimiter) & set("\r\n\0"):
        raise ValueError("a cluster name and a delimiter without line ends are needed")
    columns, has_header = read_columns(first_line, delimiter)
    return Reader(columns, has_header=has_header, cluster=named, zone=zone, delimiter=delimiter, first_line=first_line)


class Reader:
    """Reads the records of one file. columns: their names as told; has_header: whether a header was there.

    Besides caches it remembers one thing, the value of the column Cluster in the first record: job numbers of
    two clusters collide, so a record of another cluster is refused.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        *,
        has_header: bool,
        cluster: str,
        zone: tzinfo,
        delimiter: str,
        first_line: str,
    ) -> None:
        self.columns = columns
        self.has_header = has_header
        self._plan = Plan.of([name.lower() for name in columns])
        self._width = len(columns)
        self._cluster = cluster
        self._told_cluster: str | None = None
        self._delimiter = delimiter
        self._header = first_line.removeprefix("\ufeff").rstrip("\r\n") if has_header else None
        self._epoch = values.Clock(zone).epoch

    def read(self, line_no: int, line: str | TooLong) -> Draft | Refusal | None:
        """Draft of one record, or the reason why it is none; None for a blank line or a repeated header."""
        if isinstance(line, TooLong):
            return _overlong(line_no, line, self._column_at(line.start))
        line = line.removeprefix("\ufeff").rstrip("\r\n")
        # Not isspace(): to Python 0x1f is a space, and a record of empty fields is no blank line.
        if not line.strip(" \t") or line == self._header:
            return None
        try:
            return self._record(line_no, line)
        except Bad as bad:
            text = f"{bad.pointer}: {bad.text}" if bad.pointer else bad.text
            return Refusal(line_no, bad.pointer, bad.code, text, _payload(line))

    def _record(self, line_no: int, line: str) -> Draft:
        found = self._split(line)
        told = found[self._plan.cluster]
        if told != self._told_cluster and told:
            self._check_cluster(told)
        who = read_identity(found[self._plan.jobidraw], found[self._plan.jobid])
        if who.step is None:
            return self._job(line_no, found, who)
        return self._step(line_no, found, who.job_id, who.step)

    def _split(self, line: str) -> list[str]:
        if "\0" in line:
            place = line.index("\0") + 1
            text = f"a NUL character stands at place {place} of the line; text is expected"
            raise Bad("nul", text, self._column_at(line[:place]))
        found = line.split(self._delimiter)
        if len(line) > _FIELD_LIMIT // 4:
            self._check_length(line, found)
        if len(found) != self._width:
            text = f"expected {self._width} fields and found {len(found)}; a delimiter inside user text "
            raise Bad("field_count", text + "does this: export with --delimiter $'\\x1f'")
        # A column that the file lacks has place -1 and reads as empty.
        found.append("")
        return found

    def _check_length(self, line: str, found: list[str]) -> None:
        size = len(line.encode(errors="replace"))
        if size > LINE_LIMIT:
            raise Bad("too_long", f"the line has {size} bytes; at most 1 MiB is expected")
        for place, text in enumerate(found):
            size = len(text.encode(errors="replace"))
            if size > _FIELD_LIMIT:
                name = self.columns[place] if place < self._width else f"field {place + 1}"
                raise Bad("too_long", f"{shown(text)} has {size} bytes; at most 64 KiB is expected", name)

    def _column_at(self, start: str) -> str:
        """Name of the column in which a beginning of a line ends; empty when nothing of it is known."""
        place = start.count(self._delimiter)
        return self.columns[place] if start and place < self._width else ""

    def _check_cluster(self, told: str) -> None:
        if self._told_cluster is not None:
            text = f"{shown(told)} is not {shown(self._told_cluster)} of the records above; "
            raise Bad("cluster_mixed", text + "export one cluster to one file", "Cluster")
        self._told_cluster = told

    def _span(self, found: list[str]) -> Span:
        plan = self._plan
        submit = self._time("Submit", found[plan.submit])
        start = self._time("Start", found[plan.start], submit)
        end = self._time("End", found[plan.end], start)
        if submit is None and start is None and end is None:
            text = "no time of the record is known; add the columns Submit, Start and End to --format"
            raise Bad("time_missing", text, "Submit")
        unplaced = plan.nodelist >= 0 and found[plan.nodelist] in UNPLACED
        span = settle(submit, start, end, unplaced=unplaced, waiting=found[plan.state] == "PENDING")
        if span.start is not None and end is not None and end < span.start:
            text = f"{shown(found[plan.end])} lies {span.start - end} s before Start {shown(found[plan.start])}"
            raise Bad("negative_duration", text, "End")
        return span

    def _time(self, column: str, text: str, floor: int | None = None) -> int | None:
        """Epoch seconds, not before `floor` if the second pass of a repeated hour can help that."""
        first = at(column, self._epoch, text)
        if first is None or floor is None or first >= floor:
            return first
        second = self._epoch(text, 1)
        return second if second is not None and second >= floor else first

    def _job(self, line_no: int, found: list[str], who: Identity) -> Draft:
        plan = self._plan
        span = self._span(found)
        size = NO_SIZE if span.start is None else self._size(found)
        code, signal = at("ExitCode", values.exit_code, found[plan.exitcode])
        nodes = found[plan.nodelist]
        reason = found[plan.reason]
        comment = at("Comment", values.free, found[plan.comment])
        data = JobReported(
            cluster=self._cluster,
            job_id=who.job_id,
            state=at("State", values.state, found[plan.state]),
            submit=span.submit,
            eligible=self._time("Eligible", found[plan.eligible], span.submit),
            start=span.start,
            end=span.end,
            record=at("DBIndex", values.record, found[plan.dbindex]),
            array_job_id=who.array_job_id,
            array_task=who.array_task,
            het_job_id=who.het_job_id,
            het_offset=who.het_offset,
            account=at("Account", values.label, found[plan.account]),
            user=at("User", values.label, found[plan.user]),
            partition=at("Partition", values.short, found[plan.partition]),
            qos=at("QOS", values.short, found[plan.qos]),
            name=at("JobName", values.free, found[plan.jobname]),
            comment=comment,
            reason=None if reason in ("", "None") else reason[:400],
            exit_code=code,
            exit_signal=signal,
            nodes=size.nodes,
            cpus=size.cpus,
            gpus=size.gpus,
            gpu_types=size.gpu_types,
            node_list=None if nodes in UNPLACED else nodes,
            suspended_seconds=self._suspended(found, span),
            limit_seconds=self._limit(found),
            energy_j=at("ConsumedEnergyRaw", values.energy, found[plan.consumedenergyraw]),
            run=run_of(comment) if comment else None,
        )
        key = key_of(data.cluster, data.job_id, data.record, span)
        return Draft("job.reported", data, key, occurred_us(span), line_no)

    def _step(self, line_no: int, found: list[str], job_id: str, step: str) -> Draft:
        plan = self._plan
        span = self._span(found)
        size = NO_SIZE if span.start is None else self._size(found)
        code, signal = at("ExitCode", values.exit_code, found[plan.exitcode])
        nodes = found[plan.nodelist]
        data = StepReported(
            cluster=self._cluster,
            job_id=job_id,
            step=step,
            state=at("State", values.state, found[plan.state]),
            submit=span.submit,
            start=span.start,
            end=span.end,
            record=at("DBIndex", values.record, found[plan.dbindex]),
            name=at("JobName", values.free, found[plan.jobname]),
            exit_code=code,
            exit_signal=signal,
            nodes=size.nodes,
            cpus=size.cpus,
            gpus=size.gpus,
            gpu_types=size.gpu_types,
            node_list=None if nodes in UNPLACED else nodes,
            energy_j=at("ConsumedEnergyRaw", values.energy, found[plan.consumedenergyraw]),
        )
        key = key_of(data.cluster, data.job_id, data.record, span)
        return Draft("step.reported", data, f"{key}/{step}", occurred_us(span), line_no)

    def _size(self, found: list[str]) -> Tres:
        plan = self._plan
        told = at("AllocTRES", values.tres, found[plan.alloctres])
        cpus = at("NCPUS", values.count, found[plan.ncpus] or found[plan.alloccpus])
        nodes = at("NNodes", values.count, found[plan.nnodes] or found[plan.allocnodes])
        if told.cpus == cpus and told.nodes == nodes:
            return told
        cpus = told.cpus if cpus is None else cpus
        return Tres(cpus, told.nodes if nodes is None else nodes, told.gpus, told.gpu_types)

    def _limit(self, found: list[str]) -> int | None:
        minutes = found[self._plan.timelimitraw]
        if minutes:
            return at("TimelimitRaw", values.limit, minutes)
        return at("Timelimit", values.limit, found[self._plan.timelimit])

    def _suspended(self, found: list[str], span: Span) -> int | None:
        told = found[self._plan.suspended]
        return suspended_within(at("Suspended", values.duration, told), span, told, "Suspended")


def _overlong(line_no: int, line: TooLong, column: str) -> Refusal:
    text = f"{shown(line.head)} begins a line of {line.size} characters; at most 1 MiB is expected"
    text = f"{column}: {text}" if column else text
    return Refusal(line_no, column, "too_long", text, _payload(line.head))


def _payload(line: str) -> str:
    """The line as sent, cut to 64 KiB; NUL, which no database text can hold, is shown as U+FFFD."""
    if len(line) > _FIELD_LIMIT // 4:
        line = line.encode(errors="replace")[:_FIELD_LIMIT].decode(errors="ignore")
    return line.replace("\0", "\ufffd")

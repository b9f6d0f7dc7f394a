"""How fast clusters were measured to be, how fast runs went, and what interrupted them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.bodies import wake
from api.errors import respond
from api.idempotency import HEADER, errors_of, key_of
from api.permissions import caller_of, scope_of
from api.renderers import FORMS, XlsxRenderer
from api.schema import BookSchema
from api.scopes import EVENTS_WRITE, READ
from api.serializers.scaling import (
    AdviceAnswer,
    InterruptionsAnswer,
    RecordAnswer,
    RecordRequest,
    ScalingRecordRow,
    SpeedAnswer,
)
from api.tables import csv_chunks, file_chunks, xlsx_file
from api.views.base import ListView
from events import queries as log
from events.access import Scope
from events.types.scaling import ScalingRecorded
from jobs import queries_goodput, queries_interruptions, queries_scaling
from jobs.actions import NotDone, Saying
from jobs.actions_scaling import record_scaling
from jobs.filters_training import ScalingRecordFilter
from jobs.queries_interruptions import COLUMNS, RunInterruptions
from jobs.queries_runs import run_named
from jobs.queries_scaling import CHANGED, Line, against

__all__ = ["Advice", "Interruptions", "RunSpeed", "ScalingRecords"]

NO_TOPOLOGY: Final = "placement: no data, the topology of the cluster is not known"
NO_FAULTS: Final = "fault: no data, no source of faults is connected"
ADVISED: Final = ("refused", "failures", "node_days", "mttf", "mttf_low", "mttf_high", "others", "ran", "mtto", "mtti",
                  "blocking", "restart", "interval", "young", "daly")  # fmt: skip
UNTOLD: Final = "Its programs told nothing, so nothing is known of its saves."
OF_MFU: Final = ("flop_per_token", "peak_gflops", "convention")
FORMAT: Final = OpenApiParameter("format", str, enum=["json", "csv", "xlsx"])


class ScalingRecords(ListView):
    """Measurements that were signed, replaced ones too (`counts=true` leaves them out)."""

    needs_write = EVENTS_WRITE
    key = ("position",)
    orderings = ("position", "measured", "gpus", "cluster", "model")
    default_ordering = "-measured"
    serializer_class = ScalingRecordRow
    filterset_class = ScalingRecordFilter
    people = ("signed_by",)
    texts = ("note",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """All: what a cluster can do is no secret."""
        return queries_scaling.records(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """With what they come to."""
        found = queries_scaling.judged(rows)
        for row in rows:
            judged = found[row.position]
            row.tokens_per_second = row.milli_tokens_per_second / 1000
            row.tokens_per_gpu_second = row.tokens_per_second / row.gpus
            row.step_seconds = None if row.step_us is None else row.step_us / 1_000_000
            row.scaling_efficiency, row.mfu, row.communication = judged.efficiency, judged.mfu, judged.communication
            row.base, row.base_gpus = judged.base, judged.base_gpus
            row.scaling_target = against("scaling_efficiency", judged.efficiency, row.gpus)
            row.mfu_target = against("mfu", judged.mfu, row.gpus)
            row.communication_target = against("communication", judged.communication, row.gpus)
        return super().shown(rows)

    @extend_schema(
        operation_id="scaling_record", filters=False, request=RecordRequest, parameters=[HEADER],
        responses={
            200: RecordAnswer, 201: RecordAnswer,
            409: OpenApiResponse(description="The record that it replaces was replaced already."),
            422: OpenApiResponse(description="It breaks a rule, or the key was used for something else."),
        },
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponseBase:
        """Record a measurement that somebody signed. A wrong one is corrected by a new one that names it in
        `replaces`; both stay in the log.
        """
        asked = RecordRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        caller = caller_of(request)
        saying = Saying(scope_of(request), caller.actor if caller else "", key_of(request))
        try:
            said = record_scaling(saying, _recorded(asked.validated_data), asked.validated_data["measured"])
        except NotDone as fault:
            status = 409 if fault.code == "replaced" else 422
            return respond(status, fault.text, code=fault.code, errors=errors_of(fault))
        wake()
        return Response({"position": said.position, "again": said.again}, status=200 if said.again else 201)


def _recorded(asked: dict[str, Any]) -> ScalingRecorded:
    """The event's data. Raises NotDone where fields do not go together, naming those that are missing."""
    told = [name for name in OF_MFU if asked.get(name) is not None]
    if told and len(told) < len(OF_MFU):
        missing = tuple(name for name in OF_MFU if name not in told)
        text = "an MFU needs flop_per_token, peak_gflops and convention: tell all three or none"
        raise NotDone("invalid", text, fields=missing)
    thousandths = ("tokens_per_second", "step_seconds", "communication", "measured")
    plain = {name: value for name, value in asked.items() if name not in thousandths and value is not None}
    step, communication = asked.get("step_seconds"), asked.get("communication")
    return ScalingRecorded(
        **plain, milli_tokens_per_second=int(asked["tokens_per_second"] * 1000),
        step_us=None if step is None else int(step * 1_000_000),
        communication_ppm=None if communication is None else int(communication * 1_000_000),
    )  # fmt: skip


class _OfRun(APIView):
    schema = BookSchema()
    needs = READ

    def run(self, request: Request, id_: uuid.UUID) -> Any:
        """The run. Raises Http404, also for one that the caller may not see."""
        found = run_named(scope_of(request), id_)
        if found is None:
            raise Http404
        return found


def _as_of() -> dict[str, Any]:
    as_of = log.as_of(datetime.now(UTC))
    return {"position": as_of.position, "time": as_of.time}


class RunSpeed(_OfRun):
    """How fast a run went."""

    @extend_schema(responses=SpeedAnswer)
    def get(self, request: Request, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - name in the address
        """Tokens per second and per GPU, step time, MFU by convention, communication; by number of GPUs."""
        run = self.run(request, id)
        found = queries_scaling.of_run(run)
        whole = None if found is None else {
            "steps": found.whole.steps, "step_seconds": found.whole.step_seconds,
            "tokens_per_second": found.whole.tokens_per_second,
            "tokens_per_gpu_second": found.whole.tokens_per_gpu_second, "communication": found.whole.communication,
            "mfu": [{"convention": name, "mfu": value} for name, value in found.mfu.items()],
        }  # fmt: skip
        body = {
            "run": run.id, "lines": [_line(line) for line in found.lines] if found else [], "whole": whole,
            "targets": [target._asdict() for target in queries_scaling.TARGETS], "gaps": [NO_TOPOLOGY],
            "as_of": _as_of(),
        }  # fmt: skip
        return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def _line(line: Line) -> dict[str, Any]:
    sums, gpus = line.sums, line.gpus
    return {
        "gpus": None if gpus == CHANGED else gpus, "convention": line.convention, "steps": sums.steps,
        "step_seconds": sums.step_seconds, "tokens_per_second": sums.tokens_per_second,
        "tokens_per_gpu_second": sums.tokens_per_gpu_second, "scaling_efficiency": line.efficiency, "mfu": sums.mfu,
        "communication": sums.communication,
        "scaling_target": against("scaling_efficiency", line.efficiency, gpus),
        "mfu_target": against("mfu", sums.mfu, gpus),
        "communication_target": against("communication", sums.communication, gpus),
    }  # fmt: skip


class Advice(_OfRun):
    """How often a run should save."""

    @extend_schema(responses=AdviceAnswer)
    def get(self, request: Request, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - name in the address
        """What failures, other ends that lost work and saving cost, and the band of intervals that cost least."""
        run = self.run(request, id)
        found = queries_goodput.of_run(run, datetime.now(UTC))
        advice = found.advice if found else queries_goodput.Advice(UNTOLD)
        known = {name: getattr(advice, name) for name in ADVISED}
        body = {
            "run": run.id, "instrumented": found is not None, **known,
            "band": advice.band._asdict() if advice.band else None, "saving_gpu_seconds": advice.saving,
            "losses": [{"interval": one.interval, "word": one.word, "saving": one.saving, "interrupted": one.failing}
                       for one in advice.losses],
            "as_of": _as_of(),
        }  # fmt: skip
        return HttpResponse(msgspec.json.encode(body), content_type="application/json")


class Interruptions(_OfRun):
    """What interrupted a run."""

    renderer_classes = FORMS

    @extend_schema(parameters=[FORMAT], responses=InterruptionsAnswer)
    def get(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - name in the address
        """Each end with lost work: when, how, what was rolled back, waited for and restored, each second once.

        Seconds are of time, GPU-seconds of what was allocated; a wait without nodes costs none. Null: not told.
        """
        run = self.run(request, id)
        found = queries_interruptions.of_run(run)
        rows = _with_texts(found)
        form = request.accepted_renderer.format
        if form != "json":
            return _file(rows, form)
        body = {
            "run": run.id, "instrumented": found is not None, "rows": rows, "total": found.total if found else None,
            "uncharged": found.uncharged if found else None, "parts": found.told if found else None,
            "gaps": [] if found and found.knows_faults else [NO_FAULTS], "as_of": _as_of(),
        }  # fmt: skip
        return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def _with_texts(found: RunInterruptions | None) -> list[dict[str, Any]]:
    """Rows with what programs wrote in place of its id."""
    rows = list(found.rows) if found else []
    texts = log.texts({row["told_why"] for row in rows if row["told_why"]})
    return [{**row, "told_why": texts.get(row["told_why"], row["told_why"])} for row in rows]


def _file(rows: Sequence[dict[str, Any]], form: str) -> HttpResponseBase:
    cells = [[row[name] for name in COLUMNS] for row in rows]
    if form == "csv":
        content, kind = csv_chunks(COLUMNS, cells), "text/csv; charset=utf-8"
    else:
        content, kind = file_chunks(xlsx_file("interruptions", COLUMNS, cells)), XlsxRenderer.media_type
    response = StreamingHttpResponse(content, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="interruptions.{form}"'
    return response

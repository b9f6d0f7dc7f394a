"""Faults: what is broken, and what people say of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from django.db.models import QuerySet
from django.http import Http404, HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.bodies import wake
from api.errors import respond
from api.idempotency import HEADER, key_of
from api.permissions import caller_of, scope_of
from api.schema import BookSchema
from api.serializers.faults import AcknowledgeRequest, FaultCloseRequest, FaultRow, OpenRequest, SaidAnswer
from api.views.base import DetailView, ListView
from events.access import Scope
from fleet import queries_faults
from fleet.actions_faults import Done, Opening, Refused, Speaker, acknowledge, close, open_fault
from fleet.filters import FaultFilter

__all__ = ["Acknowledge", "Close", "Fault", "Faults"]

IN_THE_WAY: Final = frozenset({"closed", "acknowledged"})
"""What stands in a command's way for now; the rest is wrong with the command itself."""
ANSWERS: Final = {
    200: SaidAnswer,
    201: SaidAnswer,
    409: OpenApiResponse(description="It is closed or acknowledged already."),
    422: OpenApiResponse(description="It breaks a rule, or the key was used for something else."),
}


def _done(request: Request, act: Callable[[Speaker], Done]) -> HttpResponseBase:
    """What was said, or why it could not be."""
    caller = caller_of(request)
    actor = caller.actor if caller else ""
    speaker = Speaker(scope_of(request), actor, f"POST {request.path}"[:200], key_of(request))
    try:
        done = act(speaker)
    except Refused as refused:
        if refused.code == "missing":
            raise Http404 from None
        return respond(409 if refused.code in IN_THE_WAY else 422, refused.text, code=refused.code)
    except ValueError as error:
        return respond(422, str(error), code="invalid")
    wake()
    return Response({"position": done.position, "again": done.again}, status=200 if done.again else 201)


class Faults(ListView):
    """Faults, open and closed."""

    orderings = ("opened", "closed", "last_seen", "node", "kind", "severity", "times", "position", "id")
    default_ordering = "-opened"
    serializer_class = FaultRow
    filterset_class = FaultFilter
    texts = ("note", "closed_note")

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Every fault."""
        return queries_faults.faults(scope)

    @extend_schema(
        operation_id="fault_open", filters=False, request=OpenRequest, parameters=[HEADER], responses=ANSWERS
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Report a fault that no source sees. It joins an open one of the same class at the same place, and stays
        open until a person closes it.
        """
        asked = OpenRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        return _done(request, lambda speaker: open_fault(speaker, Opening(**asked.validated_data)))


class Fault(DetailView):
    """One fault."""

    serializer_class = FaultRow
    lookup = {"id": "id"}
    texts = ("note", "closed_note")

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries_faults.faults(scope)


class Acknowledge(APIView):
    """Look after a fault."""

    schema = BookSchema()

    @extend_schema(operation_id="fault_acknowledge", request=AcknowledgeRequest, parameters=[HEADER], responses=ANSWERS)
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - name in the address
        """Say that somebody looks after an open fault."""
        asked = AcknowledgeRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        return _done(request, lambda speaker: acknowledge(speaker, id, asked.validated_data.get("note", "")))


class Close(APIView):
    """Close a fault."""

    schema = BookSchema()

    @extend_schema(operation_id="fault_close", request=FaultCloseRequest, parameters=[HEADER], responses=ANSWERS)
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002
        """Close an open fault, whatever its sources go on to say of it. What they report anew later is a new fault."""
        asked = FaultCloseRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        told = asked.validated_data
        return _done(request, lambda speaker: close(speaker, id, told["closed_as"], told.get("note", "")))

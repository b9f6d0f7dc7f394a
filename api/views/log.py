"""The log, deliveries and rejections."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api import filters
from api.errors import respond
from api.ingest import post_events
from api.permissions import caller_of, scope_of
from api.schema import BookSchema
from api.scopes import ADMIN, EVENTS_WRITE, LOG_READ
from api.serializers.log import DeliveryFate, DeliveryRow, EventRow, RejectionRow, WaiveRequest
from api.serializers.taken import TakenAnswer
from api.views.base import DetailView, ListView
from events import queries as log
from events import rejections as settle
from events.access import Scope


class Events(ListView):
    """Events of the log in order of position; POST takes new ones."""

    needs = LOG_READ
    needs_write = EVENTS_WRITE
    key = ("position",)
    orderings = ("position", "occurred_at")
    default_ordering = "position"
    serializer_class = EventRow
    filterset_class = filters.EventFilter

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """POST goes the short way (api/ingest.py)."""
        return post_events(request) if request.method == "POST" else super().dispatch(request, *args, **kwargs)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Everything, for a scope that sees the raw log."""
        return log.events(scope)

    @extend_schema(
        operation_id="events_take",
        filters=False,
        request={
            "application/cloudevents+json": OpenApiTypes.OBJECT,
            "application/cloudevents-batch+json": {
                "type": "array",
                "items": {"type": "object"},
                "maxItems": 5000,
            },
            "application/x-ndjson": OpenApiTypes.STR,
            "application/json": OpenApiTypes.OBJECT,
        },
        parameters=[
            OpenApiParameter("atomic", bool, description="Keep nothing when any item is rejected."),
            OpenApiParameter("results", str, enum=["rejected"], description="List only the rejected items."),
        ],
        responses={200: TakenAnswer, 422: TakenAnswer},
    )
    def post(self, _: Request) -> Response:
        """Take CloudEvents 1.0: structured, binary, a batch, or one per line.

        `type` is a registered event type, `time` is required, `data` is its JSON. Up to 5,000 items; each
        gets a result. The same event again is a duplicate and changes nothing; another one under the same source
        and id is rejected as a conflict. One event alone is kept as a delivery and appended within a second.
        """
        raise NotImplementedError  # dispatch answers; this declares the method for the schema


class Event(DetailView):
    """One event by position."""

    needs = LOG_READ
    serializer_class = EventRow
    lookup = {"position": "position"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return log.events(scope)


class Deliveries(ListView):
    """Bodies that outside systems sent one by one, newest first."""

    needs = LOG_READ
    orderings = ("received_at",)
    default_ordering = "-received_at"
    serializer_class = DeliveryRow
    filterset_class = filters.DeliveryFilter

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """For a scope that sees the raw log."""
        return log.deliveries(scope)


class Delivery(DetailView):
    """A delivery and what became of it: positions of its events, and its rejections."""

    needs = LOG_READ
    serializer_class = DeliveryFate
    lookup = {"id": "id"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return log.deliveries(scope)

    def row(self) -> Any:
        """With its events and rejections."""
        found = super().row()
        found.events, found.rejections = settle.fate(scope_of(self.request), found)
        return found


class Rejections(ListView):
    """Records that could not become events, newest first."""

    needs = LOG_READ
    orderings = ("recorded_at", "code", "source")
    default_ordering = "-recorded_at"
    serializer_class = RejectionRow
    filterset_class = filters.RejectionFilter

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """For a scope that sees the raw log."""
        return log.rejections(scope)


class Rejection(DetailView):
    """One rejection."""

    needs = LOG_READ
    serializer_class = RejectionRow
    lookup = {"id": "id"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return log.rejections(scope)


class _Settle(APIView):
    schema = BookSchema()
    needs = ADMIN
    needs_write = ADMIN

    def settled(self, id_: uuid.UUID, fault: settle.Fault | None) -> HttpResponseBase:
        """204, or why it could not be done."""
        if fault is None:
            return Response(status=204)
        if fault.code == "missing":
            raise Http404
        status = 409 if fault.code in ("settled", "not_replayable") else 422
        return respond(status, fault.text, code=fault.code, pointer=fault.pointer, rejection=str(id_))

    def actor(self, request: Request) -> str:
        """Who settles."""
        caller = caller_of(request)
        return caller.actor if caller else ""


class Waive(_Settle):
    """Let a rejection go."""

    @extend_schema(request=WaiveRequest, responses={204: None, 409: OpenApiResponse(description="Settled already.")})
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - name in the address
        """Let an open rejection go, with a reason."""
        asked = WaiveRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        return self.settled(id, settle.waive(id, self.actor(request), asked.validated_data["why"]))


class Replay(_Settle):
    """Take a rejected record again."""

    @extend_schema(
        request=None,
        responses={
            204: None,
            409: OpenApiResponse(description="Settled already, or not a record that can be taken again."),
            422: OpenApiResponse(description="It is refused still; the rejection stays open."),
        },
    )
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - name in the address
        """Take an open rejection's record again, after what it fell over was fixed."""
        return self.settled(id, settle.replay(id, self.actor(request)))

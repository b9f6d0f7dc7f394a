"""The doors of webhooks as the schema names them; api/webhooks.py answers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.schema import BookSchema
from api.scopes import EVENTS_WRITE
from api.serializers.taken import KeptAnswer
from api.webhooks import REST_KINDS, post_webhook

__all__ = ["Alertmanager", "Hook", "Jobcomp", "Redfish", "Rest", "Sacct"]

TOKEN = OpenApiParameter("token", str, description="The token, where the sender can set neither header nor password.")
CLUSTER = OpenApiParameter("cluster", str, description="The cluster, where the body does not name it.")
NODE = OpenApiParameter("node", str, description="The node or unit, where the subscription's Context names none.")
TIMEZONE = OpenApiParameter("timezone", str, description="Zone of local times in text (Europe/Berlin).")
KIND = OpenApiParameter("kind", str, enum=list(REST_KINDS), description="What the document is; found by its shape.")
JSON = {"application/json": OpenApiTypes.OBJECT}


class _Webhook(APIView):
    schema = BookSchema()
    needs_write = EVENTS_WRITE
    door: ClassVar[str]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """POST goes the short way (api/webhooks.py)."""
        if request.method == "POST":
            return post_webhook(request, self.door)
        return super().dispatch(request, *args, **kwargs)


class Jobcomp(_Webhook):
    """Slurm's jobcomp/elasticsearch plugin."""

    door = "jobcomp"

    @extend_schema(operation_id="ingest_jobcomp", request=JSON, parameters=[TOKEN], responses={200: KeptAnswer})
    def post(self, _: Request) -> Response:
        """Take what jobcomp/elasticsearch posts; any tail of the address is taken.

        Answered exactly 200 as soon as the body is durable, also when it cannot be read: that becomes a rejection,
        since the plugin would send it again for ever.
        """
        raise NotImplementedError  # dispatch answers; this declares the method for the schema


class Hook(_Webhook):
    """Prolog, epilog and slurmctld's hooks."""

    door = "hook"

    @extend_schema(
        operation_id="ingest_hook",
        request={**JSON, "application/x-www-form-urlencoded": OpenApiTypes.OBJECT},
        parameters=[TOKEN, CLUSTER],
        responses={200: KeptAnswer},
    )
    def post(self, _: Request) -> Response:
        """Take a hook's environment as form or JSON; scripts to copy are in deploy/slurm. Answered as jobcomp."""
        raise NotImplementedError  # as above


class Sacct(_Webhook):
    """Accounting records."""

    door = "sacct"

    @extend_schema(
        operation_id="ingest_sacct",
        request={**JSON, "text/plain": OpenApiTypes.STR},
        parameters=[TOKEN, CLUSTER, TIMEZONE],
        responses={202: KeptAnswer},
    )
    def post(self, _: Request) -> Response:
        """Take `sacct --json`, or `sacct -P` text with ?cluster= and ?timezone=."""
        raise NotImplementedError  # as above


class Rest(_Webhook):
    """slurmrestd's documents."""

    door = "rest"

    @extend_schema(
        operation_id="ingest_rest",
        request=JSON,
        parameters=[TOKEN, CLUSTER, KIND],
        responses={202: KeptAnswer},
    )
    def post(self, _: Request) -> Response:
        """Take jobs of slurmrestd's /slurm or /slurmdb, or of `squeue --json`."""
        raise NotImplementedError  # as above


class Alertmanager(_Webhook):
    """Alertmanager's webhook receiver."""

    door = "alertmanager"

    @extend_schema(
        operation_id="ingest_alertmanager", request=JSON, parameters=[TOKEN, CLUSTER], responses={200: KeptAnswer}
    )
    def post(self, _: Request) -> Response:
        """Take a notification of Alertmanager's webhook, version 4: each alert is a sighting of a fault.

        Answered 200 as soon as the body is durable; what cannot be read becomes a rejection.
        """
        raise NotImplementedError  # as above


class Redfish(_Webhook):
    """Event subscriptions of management controllers, coolant units and switches."""

    door = "redfish"

    @extend_schema(
        operation_id="ingest_redfish", request=JSON, parameters=[TOKEN, CLUSTER, NODE], responses={200: KeptAnswer}
    )
    def post(self, _: Request) -> Response:
        """Take a Redfish event; subscribe with the Context `<cluster>:<node or unit>`, or name both in the address.

        Answered as Alertmanager.
        """
        raise NotImplementedError  # as above

"""The doors of telemetry as the schema names them; api/telemetry.py answers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.schema import BookSchema
from api.scopes import EVENTS_WRITE
from api.telemetry import post_samples

__all__ = ["OtlpMetrics", "PrometheusWrite"]


class _Telemetry(APIView):
    schema = BookSchema()
    needs_write = EVENTS_WRITE
    door: ClassVar[str]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """POST goes the short way (api/telemetry.py)."""
        if request.method == "POST":
            return post_samples(request, self.door)
        return super().dispatch(request, *args, **kwargs)


class PrometheusWrite(_Telemetry):
    """Prometheus remote write."""

    door = "prometheus/write"

    @extend_schema(
        operation_id="ingest_prometheus_write",
        request={"application/x-protobuf": OpenApiTypes.BINARY},
        responses={204: OpenApiResponse(description="All samples are durable.")},
    )
    def post(self, _: Request) -> Response:
        """Take remote write 1.0 or 2.0, compressed with snappy; the content type says which.

        400: a part or all of it can never be taken (the others are kept); 503: send the same again.
        """
        raise NotImplementedError  # dispatch answers; this declares the method for the schema


class OtlpMetrics(_Telemetry):
    """OpenTelemetry over HTTP."""

    door = "otlp/v1/metrics"

    @extend_schema(
        operation_id="ingest_otlp_metrics",
        request={"application/x-protobuf": OpenApiTypes.BINARY, "application/json": OpenApiTypes.OBJECT},
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "application/x-protobuf"): OpenApiTypes.BINARY,
        },
    )
    def post(self, _: Request) -> Response:
        """Take an ExportMetricsServiceRequest, also gzipped: gauges and sums are kept.

        Answered in the encoding of the request; `partialSuccess` counts the points that are not kept.
        """
        raise NotImplementedError  # as above

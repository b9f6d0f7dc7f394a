"""The yardstick beside the door: the same events by a DRF serializer with many=True and bulk_create."""

from __future__ import annotations

from typing import Any

__all__ = ["application"]

from config.wsgi import application

# isort: split
import msgspec
from django.conf import settings
from django.db import models
from django.urls import include, path
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.response import Response
from rest_framework.views import APIView


class Plain(models.Model):
    """An event as one would write it down without an event store."""

    id = models.TextField(primary_key=True)
    source = models.TextField()
    type = models.TextField()
    time = models.DateTimeField()
    stream = models.TextField()
    data = models.JSONField()

    class Meta:
        app_label = "events"
        managed = False
        db_table = "bench_plain"


class JobSerializer(serializers.Serializer[Any]):
    """The fields of job.reported that the events here use."""

    cluster = serializers.CharField(max_length=200)
    job_id = serializers.CharField(max_length=200)
    state = serializers.CharField(max_length=40)
    account = serializers.CharField(max_length=200, required=False)
    user = serializers.CharField(max_length=200, required=False)
    partition = serializers.CharField(max_length=500, required=False)
    qos = serializers.CharField(max_length=500, required=False)
    name = serializers.CharField(max_length=20_000, required=False)
    node_list = serializers.CharField(max_length=200_000, required=False)
    gpu_types = serializers.ListField(child=serializers.CharField(max_length=500), required=False)
    submit = serializers.IntegerField()
    eligible = serializers.IntegerField(required=False)
    start = serializers.IntegerField(required=False)
    end = serializers.IntegerField(required=False)
    exit_code = serializers.IntegerField(required=False)
    nodes = serializers.IntegerField(min_value=0, required=False)
    cpus = serializers.IntegerField(min_value=0, required=False)
    gpus = serializers.IntegerField(min_value=0, required=False)
    limit_seconds = serializers.IntegerField(min_value=0, required=False)
    record = serializers.IntegerField(min_value=0, required=False)


class EventSerializer(serializers.Serializer[Any]):
    """A CloudEvent."""

    specversion = serializers.ChoiceField(["1.0"])
    id = serializers.CharField(max_length=400)
    source = serializers.CharField(max_length=400)  # type: ignore[assignment]
    type = serializers.CharField(max_length=200)
    time = serializers.DateTimeField()
    data = JobSerializer()  # type: ignore[assignment]


class Lines(BaseParser):
    """NDJSON by the same fast decoder, so that the serializer is what is compared."""

    media_type = "application/x-ndjson"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:  # noqa: ARG002
        """A list of objects."""
        return msgspec.json.Decoder().decode_lines(stream.read())


class PlainEvents(APIView):
    """Authenticated as the real door is."""

    parser_classes = [Lines]
    needs_write = "events:write"

    def post(self, request: Any) -> Response:
        """Validate, insert what is new."""
        checked = EventSerializer(data=request.data, many=True)
        checked.is_valid(raise_exception=True)
        rows = [
            Plain(
                id=f"{one['source']} {one['id']}", source=one["source"], type=one["type"], time=one["time"],
                stream=f"job/{one['data']['cluster']}/{one['data']['job_id']}", data=one["data"],
            )
            for one in checked.validated_data
        ]  # fmt: skip
        Plain.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
        return Response({"accepted": len(rows)})


urlpatterns = [path("bench/plain", PlainEvents.as_view()), path("", include("config.urls"))]

settings.ROOT_URLCONF = "bench.site"

"""Where records come from, and how that goes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.permissions import scope_of
from api.schema import BookSchema
from api.scopes import LOG_READ
from api.serializers.sources import SourceRow, SourcesAnswer
from fleet import queries

__all__ = ["Sources"]


class Sources(APIView):
    """Sources that were set up, and those that have posted."""

    schema = BookSchema()
    needs = LOG_READ

    @extend_schema(responses=SourcesAnswer)
    def get(self, request: Request) -> Response:
        """All of them: how much came, when last, how late, what was wrong. Never a token or the path of one."""
        found: Any = queries.sources(scope_of(request))
        return Response({"count": len(found), "results": SourceRow(found, many=True).data})

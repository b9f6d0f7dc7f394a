"""The site and its clusters."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api import filters
from api.schema import BookSchema
from api.scopes import READ
from api.serializers.jobs import ClusterRow, SiteRow
from api.views.base import DetailView, ListView
from events.access import Scope
from fleet import queries


class Clusters(ListView):
    """Clusters, each under one scheduler."""

    key = ("name",)
    orderings = ("name",)
    default_ordering = "name"
    serializer_class = ClusterRow
    filterset_class = filters.ClusterFilter

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Clusters in scope."""
        return queries.clusters(scope)


class Cluster(DetailView):
    """One cluster."""

    serializer_class = ClusterRow
    lookup = {"name": "name"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries.clusters(scope)


class Site(APIView):
    """The site this instance keeps the books of."""

    schema = BookSchema()
    needs = READ

    @extend_schema(responses=SiteRow)
    def get(self, _: Request) -> Response:
        """Its name, time zone and currency."""
        site = queries.site()
        return Response({"name": site.name, "timezone": site.timezone, "currency": site.currency})

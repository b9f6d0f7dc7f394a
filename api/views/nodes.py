"""Nodes, and why they take no work."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from api.serializers.nodes import HoldRow, NodeRow
from api.views.base import DetailView, ListView
from events.access import Scope
from fleet import queries_nodes
from fleet.filters import HoldFilter, NodeFilter

__all__ = ["Holds", "Node", "Nodes"]


class Nodes(ListView):
    """Nodes as they are now, retired ones too."""

    key = ("cluster", "name")
    orderings = ("name", "cluster", "state", "state_since", "rack", "gpus", "position")
    default_ordering = "name"
    serializer_class = NodeRow
    filterset_class = NodeFilter
    people = ("reason_by",)
    texts = ("reason",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Every node."""
        return queries_nodes.nodes(scope)


class Node(DetailView):
    """One node."""

    serializer_class = NodeRow
    lookup = {"cluster": "cluster", "name": "name"}
    people = ("reason_by",)
    texts = ("reason",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries_nodes.nodes(scope)


class Holds(ListView):
    """Why nodes took no work, open and past."""

    orderings = ("since", "until", "node", "id")
    default_ordering = "-since"
    serializer_class = HoldRow
    filterset_class = HoldFilter
    people = ("by",)
    texts = ("reason",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Every hold."""
        return queries_nodes.holds(scope)

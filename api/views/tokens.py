"""Tokens, for admins. They are made on the command line, where the secret goes to one person only."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api import filters, tokens
from api.models import Token as TokenModel
from api.scopes import ADMIN
from api.serializers.log import TokenRow
from api.views.base import DetailView, ListView
from events.access import Scope


class Tokens(ListView):
    """All tokens, revoked ones too; never their secrets."""

    needs = ADMIN
    key = ("name",)
    orderings = ("name", "created_at", "last_used_at")
    default_ordering = "name"
    serializer_class = TokenRow
    filterset_class = filters.TokenFilter

    def rows(self, _: Scope) -> QuerySet[Any]:
        """All."""
        return TokenModel.objects.all()


class Token(DetailView):
    """One token."""

    needs = ADMIN
    serializer_class = TokenRow
    lookup = {"name": "name"}

    def rows(self, _: Scope) -> QuerySet[Any]:
        """All."""
        return TokenModel.objects.all()

    @extend_schema(request=None, responses={204: None})
    def delete(self, _: Request, **__: Any) -> Response:
        """Revoke it; every process follows within half a minute."""
        tokens.revoke(self.row().name)
        return Response(status=204)

"""Fair share: who stands where, what more use would change, and shares as commands for Slurm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from api.permissions import scope_of
from api.schema import BookSchema
from api.scopes import READ
from api.serializers.fairshare import FairshareAnswer
from events import queries as log
from events.access import Scope
from events.known import reading
from events.reports import BadParameter, instant, known_at
from fleet.queries import site
from jobs import queries_fairshare as queries
from jobs.queries_whatif import what_if
from jobs.standing import NoFairshare

__all__ = ["Fairshare", "FairshareExport"]

PARAMETERS: Final = ("cluster", "at", "as_known_at", "project", "what_if", "format")
AT: Final = OpenApiParameter("at", str, description="Date (midnight of the site) or RFC 3339 time; now by default.")
KNOWN: Final = OpenApiParameter("as_known_at", str, description="As the log knew it at this position, or at this time.")


class Fairshare(APIView):
    """Standing by shares and use."""

    schema = BookSchema()
    needs = READ

    @extend_schema(
        parameters=[
            OpenApiParameter("cluster", str, description="Only this cluster."),
            AT,
            KNOWN,
            OpenApiParameter("project", str, description="Only accounts of this project and of what is below."),
            OpenApiParameter("what_if", str, description="`nodes:10,hours:24,account:NAME`; needs one cluster."),
        ],
        responses=FairshareAnswer,
    )
    def get(self, request: Request) -> HttpResponse:
        """Every cluster's standing that the caller may see; other accounts are one row `others`."""
        asked, scope = request.query_params, scope_of(request)
        for unknown in sorted(set(asked) - set(PARAMETERS)):
            raise BadParameter(unknown[:80], f"no such parameter; there are {', '.join(PARAMETERS)}")
        known, at = _when(asked)
        with reading(known):
            results = _answers(scope, at, asked)
            position = log.as_of(at).position if known is None else known
        body = {"results": results, "as_of": {"position": position, "time": at}}
        return HttpResponse(msgspec.json.encode(body), content_type="application/json")


class _Text(BaseRenderer):
    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"


class FairshareExport(APIView):
    """Shares as `sacctmgr` commands."""

    schema = BookSchema()
    needs = READ
    renderer_classes = (_Text,)

    @extend_schema(parameters=[AT, KNOWN], responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """One command per account and user that the caller may see."""
        scope = scope_of(request)
        known, at = _when(request.query_params)
        with reading(known):
            _clusters(scope, cluster)
            try:
                lines = queries.export(scope, cluster, at)
            except NoFairshare:
                raise Http404 from None
        return HttpResponse("".join(f"{line}\n" for line in lines), content_type="text/plain; charset=utf-8")


def _when(asked: Any) -> tuple[int | None, datetime]:
    """The position of the log to read at (None: all of it), and the instant asked about: by default what was then."""
    zone = site().zone
    known, then = known_at(asked.get("as_known_at", ""), zone)
    text = asked.get("at", "")
    at = instant("at", text, zone) if text else then or datetime.now(UTC)
    return known, at.replace(microsecond=0)


def _answers(scope: Scope, at: datetime, asked: Any) -> list[dict[str, Any]]:
    results = [_standing(scope, cluster, at, asked) for cluster in _clusters(scope, asked.get("cluster", ""))]
    if asked.get("what_if"):
        if len(results) != 1:
            raise BadParameter("cluster", "say for which cluster the question is")
        results[0]["what_if"] = _what_if(scope, results[0]["cluster"], at, asked["what_if"])
    return results


def _clusters(scope: Scope, cluster: str) -> list[str]:
    """The clusters asked for. Raises Http404 for one that has no fair share or none that the caller may see."""
    known = queries.clusters_of(scope)
    if cluster and cluster not in known:
        raise Http404
    return [cluster] if cluster else known


def _standing(scope: Scope, cluster: str, at: datetime, asked: Any) -> dict[str, Any]:
    try:
        found = queries.seen(scope, cluster, at, asked.get("project", "").replace("\0", ""))
    except NoFairshare as missing:
        return {"cluster": cluster, "at": at, "rule": "", "rows": [], "total": {},
                "gaps": [{"cluster": cluster, "why": str(missing)}]}  # fmt: skip
    return {"cluster": cluster, "at": found.at, "rule": found.rule, "rows": found.rows, "total": found.total,
            "gaps": found.gaps}  # fmt: skip


def _what_if(scope: Scope, cluster: str, at: datetime, text: str) -> dict[str, Any]:
    try:
        found = what_if(scope, cluster, at, text)
    except NoFairshare as missing:
        raise BadParameter("what_if", str(missing)) from None
    return {"told": found.told, "at": found.at, "then": found.then, "rows": found.rows}

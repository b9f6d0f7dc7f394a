"""Commands on runs: close one, so that its name may be used again, or take that back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Final

from django.http import Http404, HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.bodies import wake
from api.errors import respond
from api.idempotency import HEADER, errors_of, key_of
from api.permissions import caller_of, scope_of
from api.schema import BookSchema
from api.scopes import RUNS_WRITE
from api.serializers.jobs import CloseRequest, ClosingAnswer
from jobs.actions import Closed, NotDone, Saying, close_run, reopen_run

__all__ = ["Close", "Reopen"]

UNPROCESSABLE: Final = frozenset({"unnamed", "at", "key_used"})
"""What is wrong with the command itself; the rest stands in its way for now."""
ANSWERS: Final = {
    200: ClosingAnswer,
    409: OpenApiResponse(description="It cannot be done now; `code` and `detail` say why, `jobs` what still runs."),
    422: OpenApiResponse(description="Nobody named the run, `at` is no time for it, or the key was used otherwise."),
}


class _Command(APIView):
    schema = BookSchema()
    needs_write = RUNS_WRITE

    def done(self, request: Request, id_: uuid.UUID, act: Callable[[Saying, uuid.UUID], Closed]) -> HttpResponseBase:
        """What was said, or why it could not be."""
        caller = caller_of(request)
        saying = Saying(scope_of(request), caller.actor if caller else "", key_of(request))
        try:
            said = act(saying, id_)
        except NotDone as fault:
            if fault.code == "missing":
                raise Http404 from None
            jobs = [{"id": str(job.id), "job_id": job.job_id, "state": job.state} for job in fault.jobs]
            status = 422 if fault.code in UNPROCESSABLE else 409
            return respond(status, fault.text, code=fault.code, run=str(id_), jobs=jobs, errors=errors_of(fault))
        wake()
        return Response({"run": str(id_), **self.told(said), "actor": said.actor})

    def told(self, said: Closed) -> dict[str, datetime | None]:
        """Since when it is closed now, and the closing that was taken back."""
        return {"closed": said.at, "taken_back": None}


class Close(_Command):
    """Close a run."""

    @extend_schema(operation_id="run_close", request=CloseRequest, parameters=[HEADER], responses=ANSWERS)
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - name in the address
        """Close a run that its user named: jobs of its account that carry the name and are submitted later are a new
        run, called `name #2` and so on. `at` closes it as of an earlier instant: a name that was taken again for
        something else is parted there.

        Jobs that were submitted before belong to it, also when they are learnt of later. A run of which a job waits
        or runs cannot be closed.
        """
        asked = CloseRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        at = asked.validated_data.get("at")
        return self.done(request, id, lambda saying, run: close_run(saying, run, at))


class Reopen(_Command):
    """Take a closing back."""

    @extend_schema(operation_id="run_reopen", request=None, parameters=[HEADER], responses=ANSWERS)
    def post(self, request: Request, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002
        """Take back that a run was closed: jobs of its name that came since are part of it again.

        Only the last closing of a name can be taken back. `taken_back` says when it had been closed; `closed` is null,
        as the run is open now.
        """
        return self.done(request, id, reopen_run)

    def told(self, said: Closed) -> dict[str, datetime | None]:
        """It is open now."""
        return {"closed": None, "taken_back": said.at}

"""What a caller may do: each view names the scope it needs for reading and for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from api.scopes import ADMIN, LOG_READ, MONEY_READ, READ, RUNS_WRITE, SCOPES, granted
from api.tokens import Caller
from events.access import Scope

if TYPE_CHECKING:  # DRF's views import these permissions
    from rest_framework.views import APIView

__all__ = ["Public", "ScopedAccess", "caller_of", "lacking", "scope_of"]


class ScopedAccess(BasePermission):
    """Views set `needs` (scope for reading) and `needs_write`; without them: `read` and `admin`."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True when the caller holds the scope. Raises PermissionDenied that names the missing one."""
        caller = caller_of(request)
        if caller is None:
            return False
        safe = request.method in SAFE_METHODS
        needed = getattr(view, "needs", READ) if safe else getattr(view, "needs_write", ADMIN)
        if needed not in caller.scopes:
            raise PermissionDenied(lacking(needed))
        return True


class Public(BasePermission):
    """For what names nobody and nothing: the schema, its page, health."""


def lacking(scope: str) -> str:
    """What a 403 says."""
    return f"this needs a token with the scope {scope} ({SCOPES[scope]})"


def caller_of(request: Request) -> Caller | None:
    """The caller of a DRF request, whether it came by token or by session."""
    user: Any = request.user
    if user is None or not user.is_authenticated:
        return None
    return user if isinstance(user, Caller) else _person(user)


def _person(user: Any) -> Caller:
    if user.is_staff or user.is_superuser:
        return Caller(f"user:{user.pk}", granted([ADMIN]))
    return Caller(f"user:{user.pk}", granted([MONEY_READ, RUNS_WRITE]), _projects(user))


def _projects(user: Any) -> frozenset[str]:
    from jobs.queries import granted_projects

    return granted_projects(user)


def scope_of(request: Request) -> Scope:
    """The part of the books the caller may see."""
    caller = caller_of(request)
    if caller is None:
        return Scope(frozenset(), money=False, fleetwide=False)
    fleetwide = caller.projects is None and LOG_READ in caller.scopes
    return Scope(caller.projects, MONEY_READ in caller.scopes, fleetwide)

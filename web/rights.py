"""Who may open which page, and what somebody without that right is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from jobs.queries import scope_of

__all__ = ["RAW_LOG", "actor_of", "link_to", "name_of", "page", "staff_action", "staff_page"]

View = Callable[..., HttpResponseBase]
RAW_LOG: Final = (
    "It shows what sources said of the whole hall, so only staff may see it. What was said of your own jobs stands "
    "on the page of each job. If you need more, ask whoever runs this Hallbook to make you staff."
)


def page(view: View) -> View:
    """A page that is read: for whoever is signed in, never kept by a browser."""
    return login_required(never_cache(require_safe(view)))


def staff_page(view: View) -> View:
    """A page of the raw log: for those who see everything."""
    return login_required(never_cache(require_safe(_whole_log(view))))


def staff_action(view: View) -> View:
    """A command on the raw log: a POST by those who see everything."""
    return login_required(never_cache(require_POST(_whole_log(view))))


def _whole_log(view: View) -> View:
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not scope_of(request.user).fleetwide:
            raise PermissionDenied(RAW_LOG)
        return view(request, *args, **kwargs)

    return guarded


def actor_of(request: HttpRequest) -> str:
    """The signed-in person as the actor of events, as in the door for machines."""
    user: Any = request.user
    return f"user:{user.pk}"


def name_of(actor: str) -> str:
    """The name of a signed-in actor; other actors are named by themselves."""
    kind, _, key = actor.partition(":")
    if kind != "user" or not key.isdecimal():
        return actor
    user: Any = get_user_model().objects.filter(pk=int(key)).first()
    return user.get_username() if user else actor


def link_to(name: str, *args: Any) -> str:
    """Address of a page by name; '' where no such page exists or it takes no such argument."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""

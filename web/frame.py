"""What every page carries around its content: where one can go, who is here, as of when."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse

from events.reports import AsOf
from fleet.queries import Site
from web import figures
from web.tables import Link

__all__ = ["frame"]

SECTIONS: Final = (("use", "Use"), ("api-docs", "API docs"))
"""Name of an address, and the word that leads there."""


def frame(request: HttpRequest, here: str, as_of: AsOf | None, site: Site) -> dict[str, Any]:
    """Context for base.html. here: the section of the page; as_of: what its figures stand on, if it has any."""
    user: Any = request.user
    return {
        "sections": [Link(word, reverse(name), name == here) for name, word in SECTIONS],
        "site": site,
        "who": user.get_full_name() or user.get_username(),
        "role": "sees all projects" if user.is_staff or user.is_superuser else "sees granted projects",
        "as_of": {
            "position": figures.thousands(as_of.position),
            "time": figures.moment(as_of.time, site.zone),
            "iso": as_of.time.isoformat(timespec="seconds"),
        }
        if as_of
        else None,
    }

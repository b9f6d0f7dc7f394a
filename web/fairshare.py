"""The page of fair share: who stands where on a cluster, how it went, and what more use would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.reports import BadParameter, Row, instant
from fleet.queries import Site, site
from jobs import queries_fairshare as queries
from jobs.queries import scope_of
from jobs.queries_fairshare import OTHERS, Seen
from jobs.queries_whatif import read_what, what_if
from jobs.share_history import course
from jobs.standing import NoFairshare
from web import figures
from web.bundle import bundle_url
from web.frame import frame
from web.rights import page
from web.sharecharts import course_chart
from web.sharetables import accounts, course_table, standing_of, users, what_if_table
from web.state import one_state
from web.tables import Link
from web.usagefigs import Figure

__all__ = ["fairshare", "section"]

DAYS = 30
"""Days of the chart."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A view: cluster, instant ('' is now), account of the chart, and the question."""

    cluster: str
    at: str
    account: str
    nodes: str
    hours: str

    def query(self) -> str:
        """The same as parameters of an address."""
        return urlencode({name: value for name, value in (("cluster", self.cluster), ("at", self.at)) if value})


@page
def fairshare(request: HttpRequest) -> HttpResponse:
    """GET /fairshare/."""
    scope, here, cut = scope_of(request.user), site(), datetime.now(UTC).replace(microsecond=0)
    given = {name: request.GET.get(name, "").strip()[:120].replace("\0", "")
             for name in ("cluster", "at", "account", "nodes", "hours")}  # fmt: skip
    with one_state():
        as_of = log.as_of(cut)
        clusters = queries.clusters_of(scope)
        if given["cluster"] and given["cluster"] not in clusters:
            raise Http404
        context: dict[str, Any] = {"clusters": clusters, "given": given, "nothing": "clusters"}
        if clusters:
            asked = Asked(**{**given, "cluster": given["cluster"] or clusters[0]})
            try:
                context |= _page(scope, here, asked, cut)
            except BadParameter as bad:
                context |= {"wrong": {"field": bad.name, "text": bad.text}, "nothing": ""}
            except NoFairshare as missing:
                context |= {"nothing": "shares", "why": str(missing)}
    around = frame(request, "fairshare", as_of, here)
    status = 400 if context.get("wrong") else 200
    return render(request, "web/fairshare.html", {**around, "everything": scope.projects is None, **context},
                  status=status)  # fmt: skip


def _page(scope: Scope, here: Site, asked: Asked, cut: datetime) -> dict[str, Any]:
    at = instant("at", asked.at, here.zone) if asked.at else cut
    found = queries.seen(scope, asked.cluster, at)
    names = [row["account"] for row in found.rows if not row["user"] and row["account"] not in ("root", OTHERS)]
    account = asked.account or (names[0] if names else "")
    if account not in names:
        raise BadParameter("account", "There is no such account with shares that you may see.")
    own = frozenset(names) if scope.projects is not None else frozenset()
    given = {"cluster": asked.cluster, "at": asked.at, "account": account, "nodes": asked.nodes, "hours": asked.hours}
    return {
        "nothing": "", "given": given, "found": found, "names": names, "when": figures.moment(found.at, here.zone),
        "figs": _figs(found, account), "gaps": [_gap(gap) for gap in found.gaps],
        "accounts": accounts(found, own, _tools(asked, at, "account")),
        "users": users(found, _tools(asked, at, "user")) if any(row["user"] for row in found.rows) else None,
        "export": f"{reverse('api-fairshare-export', args=[asked.cluster])}?{urlencode({'at': asked.at})}",
        **_chart(here, asked.cluster, account, at), **_question(scope, asked, account, at),
    }  # fmt: skip


def _figs(found: Seen, account: str) -> list[Figure]:
    row = next(row for row in found.rows if row["account"] == account and not row["user"])
    ranks = [one["rank"] for one in found.rows if one["account"] == account and one["rank"]]
    best = Figure("Best rank of its users", str(min(ranks)), "", f"of {len(ranks)} users of {account}") if ranks else (
        Figure("Best rank of its users", "—", "", "it has no users of its own"))  # fmt: skip
    return [
        _level(found, row),
        Figure("Share", f"{row['norm_shares']:.3f}", "", f"of its level; use is {row['effective_usage']:.3f} of it"),
        best,
        Figure("Decayed use", figures.key_hours(int(row["decayed_seconds"])), "billing-h", "what priority counts"),
        Figure("Undecayed use", figures.key_hours(row["undecayed_seconds"]), "billing-h", "what budgets count"),
    ]  # fmt: skip


def _level(found: Seen, row: Row) -> Figure:
    """The level of an account in one figure; the classic algorithm has none."""
    if found.config.algorithm == "classic" or row["shares"] is None:
        return Figure("Level", "—", "", "it takes the share above it" if row["shares"] is None else "Fair Tree has it")
    level, name = row["level_fs"], row["account"]
    if level is None:
        return Figure("Level", "∞", "", f"{name} used nothing")
    told = "as much as" if level == 1 else "less than" if level > 1 else "more than"
    return Figure("Level", f"{level:.3f}", "", f"{name} used {told} its share")


def _gap(gap: dict[str, Any]) -> str:
    used = f" ({figures.hours(gap['undecayed_seconds'])} billing-h)" if gap.get("undecayed_seconds") else ""
    return f"{gap.get('account', gap.get('cluster', ''))} {gap['why']}{used}"


def _tools(asked: Asked, at: datetime, group: str) -> Sequence[Link]:
    """The same figures from the door for machines: the report asks for the instant at which its window ends."""
    window = {"from": (at - timedelta(days=1)).isoformat(), "to": at.isoformat(), "group_by": group}
    report = reverse("api-report", args=["fairshare"])
    files = [Link(form.upper(), f"{report}?{urlencode({**window, 'format': form})}") for form in ("csv", "xlsx")]
    return [*files, Link("API", f"{reverse('api-fairshare')}?{asked.query()}")]


def _chart(here: Site, cluster: str, account: str, at: datetime) -> dict[str, Any]:
    today = at.astimezone(here.zone).date()
    points = course(cluster, account, [today - timedelta(days=back) for back in reversed(range(DAYS))])
    if len(points) < 2:
        return {}
    return {**course_chart(account, points), "bundle_url": bundle_url(), "course": course_table(account, points)}


def _question(scope: Scope, asked: Asked, account: str, at: datetime) -> dict[str, Any]:
    if not asked.nodes and not asked.hours:
        return {}
    text = f"nodes:{asked.nodes or 0},hours:{asked.hours or 0}"
    read_what(text)
    return {"answer": what_if_table(what_if(scope, asked.cluster, at, f"{text},account:{account}"), account)}


def section(scope: Scope, project: str, at: datetime) -> dict[str, Any]:
    """Standing now of the accounts of a project and of what is below it, for its page; {} where they have none."""
    at = at.replace(microsecond=0)
    for cluster in queries.clusters_of(scope):
        try:
            found = queries.of_project(scope, cluster, at, project)
        except NoFairshare:
            continue
        if found.rows:
            whole = Link("All of it", f"{reverse('fairshare')}?{urlencode({'cluster': cluster})}")
            return {"fairshare": standing_of(found, [whole])}
    return {}

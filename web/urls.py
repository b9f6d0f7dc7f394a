"""Addresses of the door for people."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from web import faultactions, faults, nodes
from web.bundle import serve
from web.fairshare import fairshare
from web.fleet import fleet
from web.home import home
from web.pdf import project_pdf, projects_pdf
from web.projects import moved, project, projects
from web.reports import document, index, one
from web.scaling import scaling
from web.signin import SignIn
from web.theme import choose
from web.waiting import waiting

urlpatterns = [
    path("", home, name="home"),
    path("login/", SignIn.as_view(), name="login"),
    path("theme/", choose, name="theme"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("projects/", projects, name="projects"),
    path("projects/usage.pdf", projects_pdf, name="projects-pdf"),
    path("projects/<path:code>/usage.pdf", project_pdf, name="project-pdf"),
    path("projects/<path:code>/", project, name="project"),
    path("use/", moved, name="use"),
    path("fleet/", fleet, name="fleet"),
    path("nodes/", nodes.index, name="nodes"),
    path("nodes/<str:cluster>/<str:name>/", nodes.one, name="node"),
    path("faults/", faults.index, name="faults"),
    path("faults/<uuid:key>/", faults.one, name="fault"),
    path("faults/<uuid:key>/acknowledge/", faultactions.acknowledge, name="fault-acknowledge"),
    path("faults/<uuid:key>/close/", faultactions.close, name="fault-close"),
    path("fairshare/", fairshare, name="fairshare"),
    path("scaling/", scaling, name="scaling"),
    path("waiting/", waiting, name="waiting"),
    path("reports/", index, name="reports"),
    path("reports/<str:name>/", one, name="report"),
    path("reports/<str:name>.pdf", document, name="report-pdf"),
    path("", include("web.urls_log")),
    path("", include("web.urls_mail")),
    path("", include("web.urls_runs")),
    path("charts/vega-<str:name>.js", serve, name="chart-bundle"),
]

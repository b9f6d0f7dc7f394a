"""Addresses of the door for people."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from web.bundle import serve
from web.fairshare import fairshare
from web.home import home
from web.pdf import project_pdf, projects_pdf
from web.projects import moved, project, projects
from web.signin import SignIn
from web.theme import choose

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
    path("fairshare/", fairshare, name="fairshare"),
    path("", include("web.urls_log")),
    path("", include("web.urls_runs")),
    path("charts/vega-<str:name>.js", serve, name="chart-bundle"),
]

"""Addresses of the door for people."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from web.bundle import serve
from web.signin import SignIn
from web.usage import use

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="use"), name="home"),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("use/", use, name="use"),
    path("charts/vega-<str:name>.js", serve, name="chart-bundle"),
]

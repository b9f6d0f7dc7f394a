"""Where each address leads: machines by `api`, people by `web`."""

from django.urls import include, path

urlpatterns = [
    path("", include("api.urls")),
    path("", include("web.urls")),
]

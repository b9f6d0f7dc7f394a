"""web as a Django application."""

from django.apps import AppConfig


class Web(AppConfig):
    """Registers what web projects and reports."""

    name = "web"

"""api as a Django application."""

from django.apps import AppConfig


class Api(AppConfig):
    """Registers what api projects and reports."""

    name = "api"

"""billing as a Django application."""

from django.apps import AppConfig


class Billing(AppConfig):
    """Registers what billing projects and reports."""

    name = "billing"

"""The application that holds the commands which need every other package."""

from django.apps import AppConfig


class Config(AppConfig):
    """Registered first, so that its `migrate` and `serve` stand before Django's."""

    name = "config"

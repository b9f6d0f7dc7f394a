"""The log as a Django application."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class Events(AppConfig):
    """Registers the grants that keep the application's role from editing history."""

    name = "events"

    def ready(self) -> None:
        """Grant the application's role its rights after every migration."""
        from events.grants import grant

        post_migrate.connect(grant, dispatch_uid="events.grants")

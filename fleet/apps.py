"""fleet as a Django application."""

from django.apps import AppConfig


class Fleet(AppConfig):
    """Registers what fleet projects."""

    name = "fleet"

    def ready(self) -> None:
        """Declare the projection group."""
        from events import projector
        from fleet import projections

        projector.register(projections.GROUP)

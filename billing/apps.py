"""billing as a Django application."""

from django.apps import AppConfig


class Billing(AppConfig):
    """Registers what billing projects and reports."""

    name = "billing"

    def ready(self) -> None:
        """Declare the projection group and the reports."""
        from billing import projections, reports
        from events import projector

        projector.register(projections.GROUP)
        reports.declare()

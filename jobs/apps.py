"""jobs as a Django application."""

from django.apps import AppConfig


class Jobs(AppConfig):
    """Registers what jobs projects and reports."""

    name = "jobs"

    def ready(self) -> None:
        """Declare the projection group and the reports."""
        from events import projector
        from jobs import projections, reports

        projector.register(projections.GROUP)
        reports.declare()

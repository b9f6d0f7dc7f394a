"""Celery: workers only wake what the log says is left to do, so a lost message costs one beat tick at most."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from celery import Celery
from celery.platforms import SecurityWarning

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings

from config import broker

broker.install()


def _transport(url: str, home: Path) -> dict[str, Any]:
    """Broker options: folders under the state directory for filesystem://, quick redelivery for Redis."""
    if url.startswith("filesystem"):
        queue, control = home / "broker" / "queue", home / "broker" / "control"
        for folder in (queue, control):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return {
            "data_folder_in": str(queue),
            "data_folder_out": str(queue),
            "control_folder": str(control),
            "polling_interval": 0.1,
        }
    if url.startswith(("redis", "rediss", "valkey")):
        return {"visibility_timeout": 600, "unacked_restore_interval": 2, "unacked_restore_throttle": 1}
    return {}


# Whoever starts `serve` as root has chosen so, and web runs as root too: Celery's long warning tells nothing new.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("hallbook")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_transport_options=_transport(settings.CELERY_BROKER_URL, settings.HALLBOOK_HOME),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_schedule_filename=str(settings.HALLBOOK_HOME / "beat"),
    beat_schedule={
        "catch-up": {"task": "events.tasks.catch_up", "schedule": 2.0, "options": {"expires": 2.0}},
        "pull": {"task": "jobs.tasks.pull", "schedule": 1.0, "options": {"expires": 3.0}},
        "runaways": {"task": "jobs.tasks.find_runaways", "schedule": 60.0, "options": {"expires": 60.0}},
        "mail": {"task": "web.tasks.mail", "schedule": 30.0, "options": {"expires": 30.0}},
        "upkeep": {"task": "events.tasks.upkeep", "schedule": 3600.0, "options": {"expires": 600.0}},
    },
)
app.autodiscover_tasks(["events", "jobs", "web"])

"""The WSGI application for any server."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from django.core.wsgi import get_wsgi_application

if TYPE_CHECKING:
    from api.door import Door


def _application() -> Door:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    pages = get_wsgi_application()
    from api.door import Door
    from config.celery import app

    # The doors wake the worker: every thread's tasks must go to our broker, or Celery invents an application.
    app.set_default()
    # What was loaded stays; a batch makes thousands of short-lived tuples that the collector need not walk each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    return Door(pages)


application = _application()

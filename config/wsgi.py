"""The WSGI application for any server."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

# The doors wake the worker: every thread's tasks must go to our broker, or Celery invents an application.
from config.celery import app as celery_app

celery_app.set_default()

# What was loaded stays; a batch makes thousands of short-lived tuples that the collector need not walk each time.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 50)

"""Addresses of runs, jobs and attempts."""

from __future__ import annotations

from django.urls import path

from web import attempts, closing, job, jobs, run, runs

urlpatterns = [
    path("runs/", runs.index, name="runs"),
    path("runs/<uuid:key>/", run.page, name="run"),
    path("runs/<uuid:key>/close/", closing.close, name="run-close"),
    path("runs/<uuid:key>/reopen/", closing.reopen, name="run-reopen"),
    path("jobs/", jobs.index, name="jobs"),
    path("jobs/<uuid:key>/", job.page, name="job"),
    path("attempts/", attempts.index, name="attempts"),
    path("attempts/<uuid:key>/", attempts.one, name="attempt"),
    path("go/job/<str:cluster>/<str:job_id>", jobs.go, name="go-job"),
]

"""Addresses of the door for machines."""

from __future__ import annotations

from django.urls import path, re_path

from api.errors import not_found
from api.views import docs, fairshare, fleet, health, jobs, log, reports, sources, tokens, training, webhooks

V1 = "api/v1/"

urlpatterns = [
    path(V1 + "events", log.Events.as_view(), name="api-events"),
    path(V1 + "events/<int:position>", log.Event.as_view(), name="api-event"),
    path(V1 + "deliveries", log.Deliveries.as_view(), name="api-deliveries"),
    path(V1 + "deliveries/<uuid:id>", log.Delivery.as_view(), name="api-delivery"),
    path(V1 + "rejections", log.Rejections.as_view(), name="api-rejections"),
    path(V1 + "rejections/<uuid:id>", log.Rejection.as_view(), name="api-rejection"),
    path(V1 + "rejections/<uuid:id>/waive", log.Waive.as_view(), name="api-rejection-waive"),
    path(V1 + "rejections/<uuid:id>/replay", log.Replay.as_view(), name="api-rejection-replay"),
    path(V1 + "runs", jobs.Runs.as_view(), name="api-runs"),
    path(V1 + "runs/<uuid:id>", jobs.Run.as_view(), name="api-run"),
    path(V1 + "ingest/slurm/jobcomp", webhooks.Jobcomp.as_view(), name="api-ingest-jobcomp"),
    re_path(rf"^{V1}ingest/slurm/jobcomp/.*$", webhooks.Jobcomp.as_view(schema=None)),
    path(V1 + "ingest/slurm/hook", webhooks.Hook.as_view(), name="api-ingest-hook"),
    path(V1 + "ingest/slurm/sacct", webhooks.Sacct.as_view(), name="api-ingest-sacct"),
    path(V1 + "ingest/slurm/rest", webhooks.Rest.as_view(), name="api-ingest-rest"),
    path(V1 + "sources", sources.Sources.as_view(), name="api-sources"),
    path(V1 + "jobs", jobs.Jobs.as_view(), name="api-jobs"),
    path(V1 + "jobs/<uuid:id>", jobs.Job.as_view(), name="api-job"),
    path(V1 + "attempts", jobs.Attempts.as_view(), name="api-attempts"),
    path(V1 + "attempts/<uuid:id>", jobs.Attempt.as_view(), name="api-attempt"),
    path(V1 + "goodput", training.Goodput.as_view(), name="api-goodput"),
    path(V1 + "checkpoints", training.Checkpoints.as_view(), name="api-checkpoints"),
    path(V1 + "projects", jobs.Projects.as_view(), name="api-projects"),
    path(V1 + "projects/<str:code>", jobs.Project.as_view(), name="api-project"),
    path(V1 + "accounts", jobs.Accounts.as_view(), name="api-accounts"),
    path(V1 + "accounts/<str:cluster>/<str:account>", jobs.Account.as_view(), name="api-account"),
    path(V1 + "fairshare", fairshare.Fairshare.as_view(), name="api-fairshare"),
    path(V1 + "fairshare/<str:cluster>/sacctmgr", fairshare.FairshareExport.as_view(), name="api-fairshare-export"),
    path(V1 + "clusters", fleet.Clusters.as_view(), name="api-clusters"),
    path(V1 + "clusters/<str:name>", fleet.Cluster.as_view(), name="api-cluster"),
    path(V1 + "site", fleet.Site.as_view(), name="api-site"),
    path(V1 + "tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path(V1 + "tokens/<str:name>", tokens.Token.as_view(), name="api-token"),
    path(V1 + "reports", reports.Reports.as_view(), name="api-reports"),
    path(V1 + "reports/", reports.Reports.as_view(schema=None)),
    path(V1 + "reports/<str:name>", reports.ReportView.as_view(), name="api-report"),
    path(V1 + "schema", docs.Schema.as_view(), name="api-schema"),
    path("api/docs", docs.docs, name="api-docs"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    re_path(r"^api(?:/(?P<path>.*))?$", not_found),
]

"""Every endpoint against every kind of caller. The table is worked out from docs: who may do what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import get_resolver

from api import urls
from tests.api.clouds import NDJSON, cloud, lines

pytestmark = pytest.mark.django_db
ID = "00000000-0000-0000-0000-000000000000"
ROLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]] | None] = {
    "none": None,
    "wrong": None,
    "write": (("events:write",), ()),
    "read": (("read",), ()),
    "project": (("read",), ("nlp",)),
    "money": (("money:read",), ()),
    "log": (("log:read",), ()),
    "admin": (("admin",), ()),
}
WHO = tuple(ROLES)
OPEN = (200,) * 8
READ = (401, 401, 403, 200, 200, 200, 200, 200)
READ_ONE = (401, 401, 403, 404, 404, 404, 404, 404)
LOG = (401, 401, 403, 403, 403, 403, 200, 200)
LOG_ONE = (401, 401, 403, 403, 403, 403, 404, 404)
ADMIN = (401, 401, 403, 403, 403, 403, 403, 200)
ADMIN_ONE = (401, 401, 403, 403, 403, 403, 403, 404)
WRITE = (401, 401, 200, 403, 403, 403, 403, 200)
KEPT = (401, 401, 202, 403, 403, 403, 403, 202)
NO_GET = (401, 401, 403, 405, 405, 405, 405, 405)
"""A method that an address does not know is told after the caller is: a reader learns no more than a stranger."""
MATRIX: dict[tuple[str, str], tuple[int, ...]] = {
    ("GET", "/api/v1/events"): LOG,
    ("POST", "/api/v1/events"): WRITE,
    ("GET", "/api/v1/events/999999999"): LOG_ONE,
    ("GET", "/api/v1/deliveries"): LOG,
    ("GET", f"/api/v1/deliveries/{ID}"): LOG_ONE,
    ("GET", "/api/v1/rejections"): LOG,
    ("GET", f"/api/v1/rejections/{ID}"): LOG_ONE,
    ("POST", f"/api/v1/rejections/{ID}/waive"): ADMIN_ONE,
    ("POST", f"/api/v1/rejections/{ID}/replay"): ADMIN_ONE,
    ("POST", "/api/v1/ingest/slurm/jobcomp"): WRITE,
    ("POST", "/api/v1/ingest/slurm/jobcomp/slurm/_doc"): WRITE,
    ("GET", "/api/v1/ingest/slurm/jobcomp"): NO_GET,
    ("POST", "/api/v1/ingest/slurm/hook"): WRITE,
    ("POST", "/api/v1/ingest/slurm/sacct"): KEPT,
    ("POST", "/api/v1/ingest/slurm/rest"): KEPT,
    ("POST", "/api/v1/ingest/prometheus/write"): (401, 401, 415, 403, 403, 403, 403, 415),
    ("GET", "/api/v1/ingest/prometheus/write"): NO_GET,
    ("POST", "/api/v1/ingest/otlp/v1/metrics"): WRITE,
    ("POST", "/api/v1/ingest/alertmanager"): WRITE,
    ("GET", "/api/v1/ingest/alertmanager"): NO_GET,
    ("POST", "/api/v1/ingest/redfish"): WRITE,
    ("GET", "/api/v1/sources"): LOG,
    ("GET", "/api/v1/runs"): READ,
    ("GET", f"/api/v1/runs/{ID}"): READ_ONE,
    ("GET", f"/api/v1/runs/{ID}/advice"): READ_ONE,
    ("GET", f"/api/v1/runs/{ID}/interruptions"): READ_ONE,
    ("GET", f"/api/v1/runs/{ID}/speed"): READ_ONE,
    ("POST", f"/api/v1/runs/{ID}/close"): (401, 401, 403, 403, 403, 403, 403, 400),
    ("POST", f"/api/v1/runs/{ID}/reopen"): ADMIN_ONE,
    ("GET", "/api/v1/jobs"): READ,
    ("GET", f"/api/v1/jobs/{ID}"): READ_ONE,
    ("GET", "/api/v1/attempts"): READ,
    ("GET", f"/api/v1/attempts/{ID}"): READ_ONE,
    ("GET", "/api/v1/goodput"): READ,
    ("GET", "/api/v1/checkpoints"): READ,
    ("GET", "/api/v1/scaling-records"): READ,
    ("POST", "/api/v1/scaling-records"): (401, 401, 400, 403, 403, 403, 403, 400),
    ("GET", "/api/v1/projects"): READ,
    ("GET", "/api/v1/projects/nothing"): READ_ONE,
    ("GET", "/api/v1/accounts"): READ,
    ("GET", "/api/v1/accounts/pod-x/nothing"): READ_ONE,
    ("GET", "/api/v1/fairshare"): READ,
    ("GET", "/api/v1/waiting"): READ,
    ("GET", "/api/v1/fairshare/nothing/sacctmgr"): READ_ONE,
    ("GET", "/api/v1/nodes"): READ,
    ("GET", "/api/v1/nodes/pod-a/gpu001"): READ_ONE,
    ("GET", "/api/v1/holds"): READ,
    ("GET", "/api/v1/faults"): READ,
    ("POST", "/api/v1/faults"): (401, 401, 403, 403, 403, 403, 403, 400),
    ("GET", f"/api/v1/faults/{ID}"): READ_ONE,
    ("POST", f"/api/v1/faults/{ID}/acknowledge"): (401, 401, 403, 403, 403, 403, 403, 400),
    ("POST", f"/api/v1/faults/{ID}/close"): (401, 401, 403, 403, 403, 403, 403, 400),
    ("GET", "/api/v1/clusters"): READ,
    ("GET", "/api/v1/clusters/nothing"): READ_ONE,
    ("GET", "/api/v1/site"): READ,
    ("GET", "/api/v1/tokens"): ADMIN,
    ("GET", "/api/v1/tokens/nothing"): ADMIN_ONE,
    ("DELETE", "/api/v1/tokens/nothing"): ADMIN_ONE,
    ("GET", "/api/v1/reports"): READ,
    ("GET", "/api/v1/reports/"): READ,
    ("GET", "/api/v1/reports/nothing"): READ_ONE,
    ("GET", "/api/v1/schema"): OPEN,
    ("GET", "/api/docs"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): OPEN,
    ("GET", "/api/v1/nowhere"): (404,) * 8,
}


def test_the_matrix_names_every_address() -> None:
    resolver = get_resolver("api.urls")
    named = {resolver.resolve(path).url_name or resolver.resolve(path).route for _, path in MATRIX}
    assert named == {pattern.name or str(pattern.pattern) for pattern in urls.urlpatterns}


@pytest.mark.parametrize("role", WHO)
def test_who_may_do_what(role: str, caller: Callable[..., Client]) -> None:
    grants = ROLES[role]
    client = caller(*grants[0], projects=grants[1]) if grants else Client()
    if role == "wrong":
        client = Client(HTTP_AUTHORIZATION="Bearer hb_wrong")
    found = {key: _status(client, *key) for key in MATRIX}
    assert found == {key: row[WHO.index(role)] for key, row in MATRIX.items()}


def _status(client: Client, method: str, path: str) -> int:
    body: Any = lines(cloud("matrix")) if path.endswith("events") else json.dumps({"why": "tested", "jobs": []})
    kind = NDJSON if path.endswith("events") else "application/json"
    answer = client.generic(method, path, body if method == "POST" else b"", content_type=kind)
    if answer.status_code >= 400 and path.startswith("/api/"):
        assert answer["Content-Type"] == "application/problem+json"
        assert json.loads(answer.content)["status"] == answer.status_code
    if answer.status_code == 401:
        assert answer["WWW-Authenticate"] == 'Bearer realm="hallbook"'
    return int(answer.status_code)


def test_a_403_names_the_missing_scope(caller: Callable[..., Client]) -> None:
    client = caller("read")
    assert "log:read" in client.get("/api/v1/events").json()["detail"]
    assert "events:write" in client.post("/api/v1/events", b"{}", content_type=NDJSON).json()["detail"]
    assert "admin" in client.get("/api/v1/tokens").json()["detail"]


def test_sessions_see_by_who_they_are(client: Client) -> None:
    users = get_user_model().objects
    client.force_login(users.create_user("staff", is_staff=True))
    assert client.get("/api/v1/tokens").status_code == 200
    client.force_login(users.create_user("lead"))
    assert client.get("/api/v1/jobs").json()["results"] == []
    assert client.get("/api/v1/events").status_code == 403


def test_sessions_need_csrf_for_commands() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_user("staff", is_staff=True))
    answer = client.post(f"/api/v1/rejections/{ID}/waive", {"why": "tested"}, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")


def test_wrong_methods_are_problems_too(caller: Callable[..., Client]) -> None:
    answer = caller("admin").put("/api/v1/events", b"{}", content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (405, "application/problem+json")
    assert "POST" in answer["Allow"]

"""The OpenAPI document is valid, and GET endpoints keep to it whatever they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
import yaml
from django.core.wsgi import get_wsgi_application
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from api import tokens


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str))
    return found


@pytest.mark.django_db
def test_the_schema_is_valid_and_served(client: Client) -> None:
    found = document()
    validate_schema(found)
    served = yaml.safe_load(client.get("/api/v1/schema").content)
    assert set(served["paths"]) == set(found["paths"])
    assert served["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    events = served["paths"]["/api/v1/events"]
    assert set(events["post"]["requestBody"]["content"]) == {
        "application/json", "application/cloudevents+json", "application/cloudevents-batch+json",
        "application/x-ndjson",
    }  # fmt: skip


def test_get_endpoints_keep_to_the_schema(hall: Any) -> None:
    _, secret = tokens.create("schema", ["admin"])
    schema = schemathesis.openapi.from_dict(document())
    schema.app = get_wsgi_application()
    operations = [result.ok() for result in schema.include(method="GET").get_all_operations()]
    assert len(operations) > 15

    for operation in operations:
        _keeps_to_it(operation.as_strategy(), secret)


def _keeps_to_it(cases: Any, secret: str) -> None:
    @given(case=cases)
    @settings(
        max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    def check(case: Any) -> None:
        response = case.call(
            headers={"Authorization": f"Bearer {secret}", "Host": "localhost", "Accept-Encoding": "identity"}
        )
        assert response.status_code < 500, (case.as_curl_command(), response.text)
        # Permissions have tests of their own; `fields` and dates are narrower than a schema can say.
        case.validate_response(response, excluded_checks=[ignored_auth, positive_data_acceptance])

    check()

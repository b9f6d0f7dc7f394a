"""What the OpenAPI schema needs to be told beyond the serializers."""

from __future__ import annotations

from typing import Any, Final, Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

__all__ = ["BookSchema", "TokenScheme"]

_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"parameter": {"type": "string"}, "text": {"type": "string"}},
            },
        },
    },
}
_PROBLEMS: Final = {
    "400": "A parameter or the body cannot be used; `errors` says which and why.",
    "401": "No valid token.",
    "403": "The token lacks a scope, which is named.",
    "404": "There is nothing that the caller may see.",
    "406": "The form that is asked for is not there.",
    "503": "Busy or without database; try again after Retry-After.",
}
_TABLES: Final = ("text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")


class BookSchema(AutoSchema):  # type: ignore[misc]
    """Knows our lists, our table forms, and that every error is a problem document."""

    def _is_list_view(self, serializer: Any = None) -> bool:
        if hasattr(self.view, "orderings") and hasattr(self.view, "key"):
            return self.method == "GET" and bool(self.view.orderings)
        return bool(super()._is_list_view(serializer))

    def map_renderers(self, attribute: str) -> list[str]:
        """JSON; tables are added to the answers that have them."""
        found: list[str] = super().map_renderers(attribute)
        return [name for name in found if name not in _TABLES]

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        forms = {renderer.media_type for renderer in self.view.get_renderers()}
        if self.method == "GET" and "200" in bodies and forms.issuperset(_TABLES):
            for form in _TABLES:
                bodies["200"]["content"][form] = {"schema": {"type": "string", "format": "binary"}}
        for status, text in _PROBLEMS.items():
            bodies.setdefault(status, {"description": text})
        for status, body in bodies.items():
            if int(status) >= 400:
                body.setdefault("content", {"application/problem+json": {"schema": _PROBLEM}})
        return bodies


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[misc]
    """How the schema names tokens."""

    target_class = "api.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:  # noqa: ARG002 - as it is called
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "A token of `manage.py token`."}

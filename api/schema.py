"""What the OpenAPI schema needs to be told. Imported once all applications are loaded."""

from __future__ import annotations

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[misc]
    """How the schema names it."""

    target_class = "api.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "A token of `manage.py token`."}

"""What commands ask for: no field that is not known is lost, and no instant is taken without its zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from rest_framework import serializers

__all__ = ["Asked", "Instant"]

_LONGEST: Final = 80
"""Characters of an unknown name that are said back."""


class Instant(serializers.DateTimeField):
    """An instant, RFC 3339 with its zone: one without would be another instant in another place."""

    def enforce_timezone(self, value: datetime) -> datetime:
        """As given. Raises ValidationError for one without a zone."""
        if value.tzinfo is None:
            raise serializers.ValidationError(
                f"this time has no zone: write {value.isoformat()}Z for UTC, or its offset, as in "
                f"{value.isoformat()}+01:00"
            )
        return super().enforce_timezone(value)


class Asked(serializers.Serializer[None]):
    """The body of a command."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A misspelt field must not be lost."""
        if unknown := sorted(set(self.initial_data) - set(self.fields)):
            raise serializers.ValidationError(
                {name[:_LONGEST]: f"no such field; there are {', '.join(self.fields)}" for name in unknown}
            )
        return attrs

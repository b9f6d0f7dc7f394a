"""Base of the read API's rows."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

__all__ = ["RowSerializer"]


class RowSerializer(serializers.Serializer[Any]):
    """A row; the context's `fields` says which of its fields are wanted."""

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Only the wanted fields."""
        wanted: list[str] = self.context.get("fields") or list(self.fields)
        out: dict[str, Any] = {}
        for name in wanted:
            field = self.fields[name]
            value = field.get_attribute(instance)
            out[name] = None if value is None else field.to_representation(value)
        return out

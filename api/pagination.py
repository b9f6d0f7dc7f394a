"""Cursor pages."""

from rest_framework.pagination import CursorPagination


class CursorPages(CursorPagination):
    """Placed first so that settings resolve."""

    ordering = "pk"

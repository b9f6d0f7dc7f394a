"""Addresses of pages."""

urlpatterns: list[object] = []

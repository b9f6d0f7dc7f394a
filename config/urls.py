"""Where each address leads."""

urlpatterns: list[object] = []

"""Login and logout."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone

from fleet.queries import site
from web import limits

__all__ = ["SignIn"]


class SignIn(LoginView):
    """Name and password; refused for a while after too many failures from one address."""

    template_name = "web/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        """Check the password, unless the name has failed too often from this address."""
        name, address = request.POST.get("username", "").strip(), limits.address_of(request)
        if not name or not request.POST.get("password"):
            return super().post(request, *args, **kwargs)
        if not limits.begin(name, address):
            return self._refuse(name, address)
        response = super().post(request, *args, **kwargs)
        if request.user.is_authenticated:
            limits.forget(name, address)
        return response

    def _refuse(self, name: str, address: str) -> HttpResponse:
        again = limits.open_again(name, address)
        wait = max(1, int((again - timezone.now()).total_seconds()) + 1)
        local = again.astimezone(site().zone)
        context = self.get_context_data(refused=True, minutes=(wait + 59) // 60, again=f"{local:%H:%M %Z}")
        response = self.render_to_response(context, status=429)
        response["Retry-After"] = str(wait)
        return response

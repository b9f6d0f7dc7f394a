"""The page of use."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse


@login_required
def use(request: HttpRequest) -> HttpResponse:
    """Soon."""
    return HttpResponse("soon")

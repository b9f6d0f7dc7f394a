"""The script that draws charts: Vega, Vega-Lite and vega-embed as vl-convert bundles them, with our theme.

Made once per version of the package and kept under HALLBOOK_HOME; its address changes with what is in it, so
browsers keep it for good. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from web.charts import page_theme

__all__ = ["bundle", "bundle_url", "serve"]

FOR_GOOD: Final = "public, max-age=31536000, immutable"


@cache
def digest() -> str:
    """Names the content without making it: the package's version decides the script, the rest is the theme."""
    return hashlib.sha256(f"{version('vl-convert-python')}\n{page_theme()}".encode()).hexdigest()[:16]


def bundle_url() -> str:
    """Address of the script."""
    return reverse("chart-bundle", args=[digest()])


def bundle() -> bytes:
    """The script, gzipped. The first call after an upgrade takes seconds."""
    path = Path(settings.HALLBOOK_HOME) / "static-cache" / f"vega-{digest()}.js.gz"
    if not path.exists():
        _make(path)
    return path.read_bytes()


def _make(path: Path) -> None:
    """Write beside and rename, so that other processes see all of it or nothing."""
    import vl_convert

    vega = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub forgets the default
    script = f"{vega}\nwindow.hallbookTheme={page_theme()};\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(gzip.compress(script.encode(), 9, mtime=0))
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def serve(request: HttpRequest, name: str) -> HttpResponse:
    """GET charts/vega-NAME.js; needs no login, holds nothing of the books."""
    if name != digest():
        raise Http404
    zipped = "gzip" in request.headers.get("Accept-Encoding", "")
    content = bundle() if zipped else gzip.decompress(bundle())
    headers = {"Cache-Control": FOR_GOOD, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if zipped:
        headers["Content-Encoding"] = "gzip"
    return HttpResponse(content, content_type="text/javascript; charset=utf-8", headers=headers)

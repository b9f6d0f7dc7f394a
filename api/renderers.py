"""Forms a list is given in; chosen by Accept or `?format=`."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.renderers import BaseRenderer, JSONRenderer

__all__ = ["FORMS", "CsvRenderer", "XlsxRenderer"]


class CsvRenderer(BaseRenderer):
    """CSV; lists stream it themselves, so this only names the form."""

    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, *_: Any, **__: Any) -> bytes:
        """Errors and the like: JSON."""
        return msgspec.json.encode(data)


class XlsxRenderer(CsvRenderer):
    """XLSX; as above."""

    media_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    format = "xlsx"


FORMS = [JSONRenderer, CsvRenderer, XlsxRenderer]

"""A database wrapper for HALLBOOK's embedded server: no server is touched before a query needs one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db.backends.postgresql import base

from config.database import ensure_server


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL whose HOST is a state directory: the server in it is started or joined on demand."""

    def get_connection_params(self) -> dict[str, Any]:
        """Connection parameters with the socket directory of the running server."""
        params: dict[str, Any] = super().get_connection_params()
        server = ensure_server(Path(self.settings_dict["HALLBOOK_HOME"]))
        params["host"] = str(server.socket_dir)
        return params

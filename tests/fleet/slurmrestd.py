"""A server that answers as the captured slurmrestd did: same paths, bodies, errors; its records may be changed."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

REST: Final = Path(__file__).parent.parent / "payloads" / "slurm" / "rest"
WHAT: Final = ("jobs", "nodes", "ping", "diag")
TOKEN: Final = "a-token-of-slurm"


def captured(name: str) -> bytes:
    """A captured answer, unzipped."""
    path = REST / name
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _after_headers(name: str) -> bytes:
    """The body of an answer that was captured with its status line and headers."""
    return captured(name).replace(b"\r\n", b"\n").partition(b"\n\n")[2]


class Fake:
    """State of the server. jobs: what slurmctld shows; records: what slurmdbd holds; both as in the captures."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = json.loads(captured("slurm_v0.0.38_jobs.json.gz"))["jobs"]
        self.records: list[dict[str, Any]] = json.loads(captured("slurmdb_v0.0.38_jobs.json.gz"))["jobs"]
        self.nodes: list[dict[str, Any]] = json.loads(captured("slurm_v0.0.38_nodes.json"))["nodes"]
        self.openapi: bytes | None = captured("openapi.json.gz")
        self.version = "v0.0.38"
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.gate = threading.Event()
        self.gate.set()  # while it is clear, no request is answered
        self.moved = ""
        self.dribble = False
        self.url = ""

    def answer(self, path: str, token: str) -> tuple[int, bytes]:
        parts = urlsplit(path)
        for part, given in self.answers.items():
            if part in path:
                return given
        if parts.path == "/openapi/v3" and self.openapi is not None:
            return 200, self.openapi
        if parts.path not in {f"/{p}/{self.version}/{d}" for p in ("slurm", "slurmdb") for d in WHAT}:
            return 404, _after_headers("unknown_version.txt")
        if token != TOKEN:
            return 500, _after_headers("bad_token.txt")
        if parts.path.endswith("/nodes"):
            return 200, json.dumps({"meta": {}, "errors": [], "nodes": self.nodes}).encode()
        shown = self.window(parse_qs(parts.query)) if parts.path.startswith("/slurmdb") else self.jobs
        return 200, json.dumps({"meta": {}, "errors": [], "jobs": shown}).encode()

    def window(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        """As slurmdbd chooses: eligible before the end, and ended at or after the start or not at all."""
        bounds = [query.get(name, [""])[0] for name in ("start_time", "end_time")]
        assert all(not text or text.startswith("uts") for text in bounds)  # all else is refused by the real one
        start, end = (int(text[3:]) if text else None for text in bounds)
        clusters = query.get("cluster", [""])[0].split(",")
        return [one for one in self.records if one["cluster"] in clusters and inside(one["time"], start, end)]


def inside(times: dict[str, int], start: int | None, end: int | None) -> bool:
    """Whether a record lies in the window."""
    if not times["eligible"] or (end is not None and times["eligible"] >= end):
        return False
    return not times["end"] or start is None or times["end"] >= start


@contextmanager
def serving() -> Iterator[Fake]:
    """The server on a free port of this machine."""
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            fake.gate.wait(30)
            status, body = fake.answer(self.path, self.headers.get("X-SLURM-USER-TOKEN", ""))
            self.send_response(302 if fake.moved else status)
            if fake.moved:
                self.send_header("Location", fake.moved)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self._send(body)

        def _send(self, body: bytes) -> None:
            try:
                for start in range(0, len(body), 50):
                    self.wfile.write(body[start : start + 50] if fake.dribble else body)
                    if not fake.dribble:
                        return
                    time.sleep(0.05)
            except OSError:
                pass  # the client went away, which is what a test of it wants

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()

"""A door of Hallbook that answers as told: what was posted, and what became of each report."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class Door:
    """`POST /api/v1/events?results=rejected` as docs/integrate.md tells it. `port` stays the same while it is down."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], list[dict[str, Any]]]] = []
        self.log: dict[str, dict[str, Any]] = {}
        self.again: Counter[str] = Counter()
        self.conflicts: list[str] = []
        self.first: list[Answer] = []
        self.refuses: Callable[[dict[str, Any]], bool] = lambda _event: False
        self.most = 5000
        self.hangs = threading.Event()
        self.free = threading.Event()
        self.server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.log.values())

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def answer(self, events: list[dict[str, Any]]) -> Answer:
        if self.first:
            return self.first.pop(0)
        if len(events) > self.most:
            return 413, {}, b"{}"
        results = []
        count = {"accepted": 0, "duplicate": 0, "rejected": 0}
        for index, event in enumerate(events):
            known = self.log.get(event["id"])
            if known is not None and known != event:
                self.conflicts.append(event["id"])
            if self.refuses(event) or (known is not None and known != event):
                status = "rejected"
                results.append({"index": index, "status": status, "code": "invalid", "pointer": "/data/step",
                                "text": "Expected `int`"})  # fmt: skip
            else:
                status = "accepted" if known is None else "duplicate"
                if known is not None:
                    self.again[event["id"]] += 1
                self.log[event["id"]] = event
            count[status] += 1
        body = json.dumps({**count, "results": results}).encode()
        return (422 if count["rejected"] == len(events) else 200), {"Content-Type": "application/json"}, body

    def up(self) -> None:
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                events = [json.loads(line) for line in raw.split(b"\n") if line]
                door.posts.append((self.path, {name.lower(): text for name, text in self.headers.items()}, events))
                if door.hangs.is_set():
                    door.free.wait(30)
                    return
                status, headers, body = door.answer(events)
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        self.free.set()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None


def soon(true: Callable[[], object], seconds: float = 10) -> None:
    """Wait until it holds."""
    pause, waited = threading.Event(), 0.0
    while not true():
        assert waited < seconds, "it did not happen in time"
        pause.wait(0.02)
        waited += 0.02

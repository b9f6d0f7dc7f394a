"""A small mail server on loopback: speaks as much SMTP as smtplib does, and fails in the ways tests ask for.

The standard library's `smtpd` is gone since Python 3.12, and what replaces it cannot fall silent in the middle.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Server:
    """What it took, and what it answers instead of yes. port: where it listens.

    answers: verb (MAIL, RCPT, DATA, or END after the mail) -> a line, or `drop` to hang up, or `keep and drop` to take
    the mail and hang up without a word.
    """

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    connections: int = 0
    took: Any = None
    """Called with each mail before it is acknowledged."""


class _Handler(socketserver.StreamRequestHandler):
    """One conversation."""

    timeout = 10

    def handle(self) -> None:
        told: Server = self.server.told  # type: ignore[attr-defined]
        told.connections += 1
        self._say("220 loopback ESMTP")
        while line := self.rfile.readline():
            verb = line[:4].decode("ascii", "replace").strip().upper()
            if not self._answer(told, verb):
                return

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _answer(self, told: Server, verb: str) -> bool:
        """Answer one command; False ends the conversation."""
        if verb == "QUIT":
            self._say("221 bye")
            return False
        wanted = told.answers.get(verb, "")
        if wanted == "drop":
            return False
        if wanted:
            self._say(wanted)
            return True
        if verb == "DATA":
            return self._take(told)
        self._say("250 SMTPUTF8" if verb == "EHLO" else "250 ok")
        return True

    def _take(self, told: Server) -> bool:
        self._say("354 go on")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        wanted = told.answers.get("END", "")
        if not wanted or wanted == "keep and drop":
            told.mails.append(b"".join(lines))
            if told.took:
                told.took(told.mails[-1])
        if wanted.endswith("drop"):
            return False
        self._say(wanted or "250 taken")
        return True


@contextmanager
def serving() -> Iterator[Server]:
    """A server while the block runs."""
    told = Server()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads, server.told = True, told  # type: ignore[attr-defined]
        told.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()

"""The load generator: raw sockets with keep-alive, and bodies encoded beforehand, so that it costs little."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Sent:
    """What came of a run: seconds, answers by status, and the time of each request."""

    seconds: float
    statuses: dict[int, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Every answer was a 200."""
        return set(self.statuses) == {200}


def request(path: str, token: str, content_type: str, body: bytes) -> bytes:
    """One POST as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def batches(port: int, requests: Sequence[bytes], clients: int = 4) -> Sent:
    """Send all, each client its next one when it has the answer; a thread each, which mostly waits."""
    waiting, lock, sent = iter(requests), threading.Lock(), Sent(0.0)

    def work() -> None:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            while True:
                with lock:
                    wanted = next(waiting, None)
                if wanted is None:
                    return
                status = _exchange(peer, wanted)
                with lock:
                    sent.statuses[status] = sent.statuses.get(status, 0) + 1

    threads = [threading.Thread(target=work) for _ in range(clients)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent.seconds = time.perf_counter() - begin
    return sent


def _exchange(peer: socket.socket, wanted: bytes) -> int:
    peer.sendall(wanted)
    got = bytearray()
    while (whole := _length(got)) is None or len(got) < whole:
        piece = peer.recv(1 << 18)
        if not piece:
            raise ConnectionError(f"the server closed the connection after {bytes(got[:200])!r}")
        got += piece
    return int(got[9:12])


def _length(got: bytes | bytearray) -> int | None:
    """Length of the whole answer once its head is here."""
    head = got.find(b"\r\n\r\n")
    if head < 0:
        return None
    at = got.lower().find(b"content-length:", 0, head)
    return head + 4 + int(got[at + 15 : got.find(b"\r\n", at)])


def singles(port: int, requests: Iterator[bytes], clients: int = 8, seconds: float = 5.0) -> Sent:
    """One small request at a time per client, all clients in one loop of this process."""
    chooser, sent = selectors.DefaultSelector(), Sent(0.0)
    begin = time.perf_counter()
    started: dict[int, float] = {}
    for _ in range(clients):
        peer = socket.create_connection(("127.0.0.1", port))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chooser.register(peer, selectors.EVENT_READ)
        started[peer.fileno()] = time.perf_counter()
        peer.sendall(next(requests))
    open_peers, until = clients, begin + seconds
    while open_peers:
        for key, _ in chooser.select():
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            got = peer.recv(65_536)
            while (whole := _length(got)) is None or len(got) < whole:
                got += peer.recv(65_536)
            now = time.perf_counter()
            sent.times.append(now - started[key.fd])
            status = int(got[9:12])
            sent.statuses[status] = sent.statuses.get(status, 0) + 1
            if now < until:
                started[key.fd] = now
                peer.sendall(next(requests))
            else:
                chooser.unregister(peer)
                peer.close()
                open_peers -= 1
    sent.seconds = time.perf_counter() - begin
    return sent

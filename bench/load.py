"""The load generator: raw sockets with keep-alive, and bodies encoded beforehand, so that it costs little."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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


def request(path: str, token: str, content_type: str, body: bytes, more: str = "") -> bytes:
    """One POST as it goes over the wire. more: further lines of its head, each with its end."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
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
    return _answer(peer)


def _answer(peer: socket.socket) -> int:
    """Status of the answer, which is read whole."""
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
    if at < 0:  # a 204 has no body
        return head + 4
    return head + 4 + int(got[at + 15 : got.find(b"\r\n", at)])


def singles(port: int, requests: Iterator[bytes], clients: int = 8, seconds: float = 5.0) -> Sent:
    """One small request at a time per client, all clients in one loop of this process."""
    chooser, sent = selectors.DefaultSelector(), Sent(0.0)
    begin = time.perf_counter()
    started: dict[int, float] = {}
    for _ in range(clients):
        peer = _line(port)
        chooser.register(peer, selectors.EVENT_READ)
        started[peer.fileno()] = time.perf_counter()
        peer.sendall(next(requests))
    open_peers, until = clients, begin + seconds
    while open_peers:
        for key, _ in chooser.select():
            peer = key.fileobj  # type: ignore[assignment]  # all that were registered are sockets
            status = _answer(peer)
            now = time.perf_counter()
            sent.times.append(now - started[key.fd])
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


@dataclass
class Paced:
    """What came of a run at a set rate. sent, answered: instants by request (perf_counter); late: seconds behind."""

    statuses: dict[int, int] = field(default_factory=dict)
    sent: list[float] = field(default_factory=list)
    answered: dict[int, float] = field(default_factory=dict)
    late: float = 0.0

    @property
    def good(self) -> bool:
        """Every answer said that the event was taken."""
        return bool(self.statuses) and all(200 <= status < 300 for status in self.statuses)


def paced(
    port: int, requests: Sequence[bytes], per_second: float, accepted: Callable[[int], None], clients: int = 16
) -> Paced:
    """Send request n at n / per_second after the begin, whoever is slow; `accepted` is called with n at its answer.

    A request waits for a free connection only when all are waiting for answers; `late` is the longest such wait.
    """
    chooser, found = selectors.DefaultSelector(), Paced()
    free = [_line(port) for _ in range(clients)]
    waiting: dict[socket.socket, int] = {}
    begin, number = time.perf_counter(), 0
    while number < len(requests) or waiting:
        due = begin + number / per_second - time.perf_counter() if number < len(requests) else 1.0
        if number < len(requests) and due <= 0 and free:
            peer = free.pop(0)  # in turns: the server closes those that are idle for 30 s
            chooser.register(peer, selectors.EVENT_READ)
            waiting[peer] = number
            found.late = max(found.late, -due)
            found.sent.append(time.perf_counter())
            peer.sendall(requests[number])
            number += 1
            continue
        for key, _ in chooser.select(max(0.0, due) if free else 1.0):
            peer = key.fileobj  # type: ignore[assignment]  # all that were registered are sockets
            status = _answer(peer)
            which = waiting.pop(peer)
            found.answered[which] = time.perf_counter()
            found.statuses[status] = found.statuses.get(status, 0) + 1
            accepted(which)
            chooser.unregister(peer)
            free.append(peer)
    for peer in free:
        peer.close()
    return found


def _line(port: int) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer

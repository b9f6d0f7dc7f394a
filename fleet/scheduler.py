"""The only client of a scheduler: slurmrestd, asked for its jobs and its accounting.

One GET at a time, with a deadline for the whole answer and a bound on its size; redirects are not followed, so the
token never goes to another host. The newest version of the API that both sides know is found in the server's
OpenAPI document, or by trying. Slurm tells errors as JSON with HTTP 500, in 22.05 also a bad token.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec

__all__ = ["NEWEST", "OLDEST", "BadUrl", "Document", "Missing", "Scheduler", "TooLarge", "TooSlow", "Trouble",
           "Versions", "check_url", "cluster_of", "read_document"]  # fmt: skip

OLDEST: Final = 37
NEWEST: Final = 45
"""v0.0.37 (Slurm 21.08) to v0.0.45: what our adapters read."""
_NOTHING_FOUND: Final = 9003
"""ESLURM_REST_EMPTY_RESULT: no record in the window, which is an answer."""
_JOBS: Final = re.compile(r"/(slurm|slurmdb)/v0\.0\.(\d+)/jobs/?\Z")
_CHUNK: Final = 1 << 18


class Trouble(Exception):
    """The scheduler could not be asked, or answered that it cannot; the text is for a person and holds no secret."""


class TooLarge(Trouble):
    """The answer is larger than the bound; nothing of it was kept."""


class TooSlow(Trouble):
    """The answer did not come in time."""


class Missing(Trouble):
    """404: this version of the API is not there (any more)."""


class BadUrl(ValueError):
    """An address that cannot be slurmrestd's."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Newest usable version of /slurm and of /slurmdb, such as `v0.0.38`; empty where there is none."""

    slurm: str
    slurmdb: str


class Fault(msgspec.Struct, gc=False):
    """One entry of an answer's `errors`."""

    description: Any = None
    error: Any = None
    error_number: Any = None
    source: Any = None


class _Answer(msgspec.Struct, gc=False):
    """An answer as it is decoded: one without a list of records is none, whatever its status says."""

    jobs: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    nodes: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    meta: msgspec.Raw = msgspec.Raw(b"{}")
    errors: list[Fault] = []


@dataclass(frozen=True, slots=True)
class Document:
    """An answer, its records (of jobs or of nodes) as they were sent."""

    records: list[msgspec.Raw]
    meta: msgspec.Raw


class _Named(msgspec.Struct, gc=False):
    cluster: Any = None


class _Paths(msgspec.Struct, gc=False):
    paths: dict[str, msgspec.Raw]


_document: Final = msgspec.json.Decoder(_Answer)


def check_url(url: str) -> str:
    """The address without a slash at its end. Raises BadUrl."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadUrl(f"{url}: expected the address of slurmrestd, such as http://head:6820")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadUrl("expected only scheme, host, port and path: the token stays in its file")
    return url.rstrip("/")


class Scheduler:
    """One slurmrestd. seconds: for one whole answer. most: bytes of one answer."""

    def __init__(self, url: str, token: str, user: str = "", *, seconds: float = 30, most: int = 128 << 20) -> None:
        self._parts = urlsplit(check_url(url))
        self._headers = {"X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
        if user:
            self._headers["X-SLURM-USER-NAME"] = user
        self._seconds, self.most = seconds, most

    def versions(self) -> Versions:
        """What both sides know. Raises Trouble."""
        try:
            paths: Iterable[str] = msgspec.json.decode(self._get("/openapi/v3"), type=_Paths).paths
        except (Missing, msgspec.DecodeError):
            return Versions(self._tried("slurm", "ping"), self._tried("slurmdb", "diag"))
        found: dict[str, list[int]] = {"slurm": [], "slurmdb": []}
        for path in paths:
            if (match := _JOBS.search(path)) is not None:
                found[match[1]].append(int(match[2]))
        return Versions(_best(found["slurm"]), _best(found["slurmdb"]))

    def jobs(self, version: str) -> bytes:
        """All jobs that slurmctld knows, as sent. Raises Trouble."""
        return self._get(f"/slurm/{version}/jobs")

    def nodes(self, version: str) -> bytes:
        """All nodes that slurmctld knows, as sent. Raises Trouble."""
        return self._get(f"/slurm/{version}/nodes")

    def accounting(self, version: str, cluster: str, start: int, end: int | None) -> bytes:
        """Accounting of what ran or waited in [start, end) (epoch seconds; no end: until now), as sent.

        slurmdbd takes a job as inside if it was eligible before `end` and ended at or after `start`, or has not
        ended: a long job is found by its end as well as while it runs. Raises Trouble.
        """
        window = {"cluster": cluster, "start_time": f"uts{start}"}
        if end is not None:
            window["end_time"] = f"uts{end}"
        return self._get(f"/slurmdb/{version}/jobs?{urlencode(window)}")

    def _tried(self, plugin: str, probe: str) -> str:
        for number in range(NEWEST, OLDEST - 1, -1):
            try:
                self._get(f"/{plugin}/v0.0.{number}/{probe}")
            except Missing:
                continue
            except (TooSlow, _Unreachable):
                raise
            except Trouble:
                pass  # it is there and has another sorrow, which asking for jobs will tell
            return f"v0.0.{number}"
        return ""

    def _get(self, path: str) -> bytes:
        until = time.monotonic() + self._seconds
        connection = self._connection()
        try:
            connection.request("GET", quote(self._parts.path, safe="/") + path, headers=self._headers)
            with connection.getresponse() as answer:
                body = self._body(answer, until)
        except TimeoutError:
            raise TooSlow(f"no whole answer within {self._seconds:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Unreachable(f"cannot be asked: {_told(error)}") from None
        except ValueError:  # its text would hold the token
            raise Trouble("the token or the user name has characters that no header takes") from None
        finally:
            connection.close()
        return _checked(answer.status, path.partition("?")[0], body)

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(self._parts.hostname or "", self._parts.port, timeout=self._seconds)

    def _body(self, answer: http.client.HTTPResponse, until: float) -> bytes:
        out = bytearray()
        while piece := answer.read1(_CHUNK):
            out += piece
            if len(out) > self.most:
                raise TooLarge(f"the answer has more than {self.most:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError
        if answer.length:
            raise http.client.IncompleteRead(b"")
        return bytes(out)


class _Unreachable(Trouble):
    """Nobody answered, or broke off."""


def _best(numbers: list[int]) -> str:
    """The newest that we know; of only newer ones the one that is nearest to ours."""
    known = [number for number in numbers if OLDEST <= number <= NEWEST]
    newer = [number for number in numbers if number > NEWEST]
    if not known and not newer:
        return ""
    return f"v0.0.{max(known) if known else min(newer)}"


def _checked(status: int, path: str, body: bytes) -> bytes:
    if status == 200:
        return body
    if status == 404:
        raise Missing(f"{path} is not there (404)")
    if 300 <= status < 400:
        raise Trouble(f"{path} leads elsewhere ({status}); give --url the address that answers itself")
    try:
        faults = _document.decode(body).errors
    except (msgspec.DecodeError, UnicodeDecodeError):
        faults = []
    if faults and all(fault.error_number == _NOTHING_FOUND for fault in faults):
        return b'{"jobs":[]}'
    said = _faults(faults) or body[:200].decode("utf-8", "replace").strip() or http.client.responses.get(status, "")
    hint = "; a bad or expired token looks like this too" if status in (401, 403, 500) else ""
    raise Trouble(f"{path} answered {status}: {said}{hint}")


def read_document(body: bytes, what: Literal["jobs", "nodes"] = "jobs") -> Document:
    """The records of an answer. Raises Trouble when it is none, or tells of errors."""
    try:
        found = _document.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Trouble(f"its answer cannot be read: {error}") from None
    faults = [fault for fault in found.errors if fault.error_number != _NOTHING_FOUND]
    if faults:
        raise Trouble(_faults(faults))
    records = found.jobs if what == "jobs" else found.nodes
    if records is msgspec.UNSET:
        if found.errors:  # no record in the window
            return Document([], found.meta)
        raise Trouble(f"its answer holds no list of {what}")
    return Document(records, found.meta)


def cluster_of(document: Document) -> str:
    """The cluster that an answer's records name; empty where they name none."""
    for record in document.records:
        try:
            named = msgspec.json.decode(record, type=_Named).cluster
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # no record of a job: the adapter refuses it by its place
        return named if isinstance(named, str) else ""
    return ""


def _faults(faults: list[Fault]) -> str:
    texts = [
        " ".join(str(part) for part in (fault.description, fault.error and f"({fault.error})") if part)
        for fault in faults[:3]
    ]
    return "; ".join(text for text in texts if text)[:500]


def _told(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its host name is unknown"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)[:200]

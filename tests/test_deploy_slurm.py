"""The hook script that sites copy, run as Slurm runs it: against a Hallbook that answers, is down, hangs or refuses."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from events.adapters import Draft, slurm_hook
from tests.events.adapters.slurm_posts import read_hook
from tests.events.adapters.test_slurm_hook import AFTER, BEFORE, PROLOG

DEPLOY = Path(__file__).parents[1] / "deploy" / "slurm"
TOKEN = "hb_0123456789abcdef"
AT_ONCE = 1.0
"""Seconds a call may take on a busy machine; a prolog that takes longer holds up its job."""


class Door:
    """A door of Hallbook: keeps what is posted and answers as told. `port` stays the same while it is down."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.command_lines: list[bytes] = []
        self.answer = 200
        self.hangs = threading.Event()
        self.free = threading.Event()
        self.server: ThreadingHTTPServer | None = None
        self.port = 0

    def up(self) -> None:
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                door.headers.append({name.lower(): value for name, value in self.headers.items()})
                door.command_lines += [path.read_bytes() for path in processes()]
                if door.hangs.is_set():
                    door.free.wait(20)
                    return
                door.bodies.append(body)
                self.send_response(door.answer)
                self.end_headers()

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


def processes() -> Iterator[Path]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"curl" in path.read_bytes():
                yield path
        except OSError:
            continue


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    made.up()
    yield made
    made.down()


class Site:
    """A node with the script installed as README.md says."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.spool = folder, folder / "spool"
        shutil.copy(DEPLOY / "hallbook-hook", folder / "hallbook-hook")
        for name in ("prolog", "epilog", "prologslurmctld", "epilogslurmctld"):
            (folder / name).symlink_to("hallbook-hook")
        self.configure(
            f"url=http://127.0.0.1:{port}/api/v1/ingest/slurm/hook\ntoken={TOKEN}\nspool={self.spool}\npauses=\n"
        )

    def configure(self, text: str) -> None:
        (self.folder / "hook.conf").write_text(text)

    def call(self, name: str, env: dict[str, str], *, kill: bool = False) -> float:
        """Run it with nothing but Slurm's environment, as Slurm does; the seconds it took. It must exit with 0."""
        start = time.monotonic()
        child = subprocess.Popen(
            [self.folder / name], env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        out, _ = child.communicate(timeout=10)
        took = time.monotonic() - start
        if kill:  # slurmd ends what a script leaves in its process group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        assert (child.returncode, out) == (0, b"")
        return took

    def files(self, end: str = ".form") -> list[Path]:
        return sorted(self.spool.glob(f"*{end}"))


@pytest.fixture
def site(tmp_path: Path, door: Door) -> Site:
    return Site(tmp_path, door.port)


def soon(true: Callable[[], object], seconds: float = 8) -> None:
    """Wait until it holds."""
    pause, until = threading.Event(), time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        pause.wait(0.02)


def env(body: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: value for name, value in body["env"].items() if name.startswith("SLURM")}


def sighting(body: bytes) -> Draft:
    (item,) = slurm_hook.translate("application/x-www-form-urlencoded", {}, body)
    assert isinstance(item, Draft)
    return item


@pytest.mark.parametrize(("name", "body"), [
    ("prolog", PROLOG), ("prologslurmctld", BEFORE), ("epilogslurmctld", AFTER), ("hallbook-hook", PROLOG),
])  # fmt: skip
def test_a_call_is_posted_and_read(site: Site, door: Door, name: str, body: dict[str, dict[str, str]]) -> None:
    """The same environment as of the captured call gives the same sighting, but for the time."""
    assert site.call(name, env(body)) < AT_ONCE
    soon(lambda: door.bodies and not site.files())
    found = sighting(door.bodies[0])
    (captured,) = read_hook(body)  # type: ignore[arg-type]
    assert isinstance(captured, Draft)
    assert (found.source, found.native_key) == (captured.source, captured.native_key)
    told, expected = found.data, captured.data
    for field in ("job_id", "state", "name", "user", "nodes", "cpus", "gpu_indices", "restarts", "exit_code"):
        assert getattr(told, field) == getattr(expected, field), field
    assert abs(found.occurred_us / 1e6 - time.time()) < 10
    sent = door.headers[0]
    assert (sent["authorization"], sent["content-type"]) == (f"Bearer {TOKEN}", "application/x-www-form-urlencoded")
    assert not any(TOKEN.encode() in line for line in door.command_lines)
    assert door.command_lines


def test_it_survives_the_end_of_its_process_group(site: Site, door: Door) -> None:
    for number in range(5):
        site.call("prolog", {**env(PROLOG), "SLURM_JOB_ID": str(number + 1)}, kill=True)
    soon(lambda: len(door.bodies) == 5)


def test_text_of_users_arrives_and_is_never_run(site: Site, door: Door, tmp_path: Path) -> None:
    text = f"\"; touch {tmp_path}/run $(touch {tmp_path}/run) `id` \\ %41+&= αβ\nsecond line' run=atlas"
    site.call("epilogslurmctld", {**env(AFTER), "SLURM_JOB_NAME": text, "SLURM_JOB_COMMENT": text})
    soon(lambda: door.bodies)
    told = sighting(door.bodies[0]).data
    assert (told.name, told.comment, told.run) == (text, text, "atlas")  # type: ignore[attr-defined]
    assert not (tmp_path / "run").exists()


def test_only_what_the_ledger_needs_is_sent(site: Site, door: Door) -> None:
    site.call("prolog", {**env(PROLOG), "SLURM_JWT": "secret", "AWS_SECRET": "secret", "SLURM_JOB_STDOUT": "/home/x"})
    soon(lambda: door.bodies)
    assert b"secret" not in door.bodies[0]
    assert b"home" not in door.bodies[0]


def test_while_hallbook_is_down_calls_wait_and_are_sent_once_afterwards(site: Site, door: Door) -> None:
    door.down()
    for number in (1, 2, 3):
        assert site.call("prolog", {**env(PROLOG), "SLURM_JOB_ID": str(number)}) < AT_ONCE
    soon(lambda: len(site.files()) == 3)
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.files()} == {0o600}
    door.up()
    site.call("epilog", {**env(PROLOG), "SLURM_JOB_ID": "4"})
    soon(lambda: not site.files())
    told = [sighting(body) for body in door.bodies]
    assert [one.data.job_id for one in told] == ["1", "2", "3", "4"]  # type: ignore[attr-defined]
    assert [one.occurred_us for one in told] == sorted(one.occurred_us for one in told)


def test_the_last_call_before_an_outage_ends_is_sent_without_another_one(site: Site, door: Door) -> None:
    door.down()
    site.configure((site.folder / "hook.conf").read_text() + "pauses='1 1 1 1 1 1'\n")
    for number in (1, 2, 3):
        site.call("epilog", {**env(PROLOG), "SLURM_JOB_ID": str(number)})
    soon(lambda: len(site.files()) == 3)
    threading.Event().wait(0.5)  # their own tries have failed by now
    door.up()
    soon(lambda: not site.files())
    assert sorted(sighting(body).data.job_id for body in door.bodies) == ["1", "2", "3"]  # type: ignore[attr-defined]


def test_a_hallbook_that_hangs_holds_up_nothing(site: Site, door: Door) -> None:
    door.hangs.set()
    assert site.call("prolog", env(PROLOG)) < AT_ONCE
    soon(lambda: door.headers)
    assert len(site.files()) == 1
    soon(lambda: not list(processes()), seconds=6)  # after 2 s curl gives up
    assert len(site.files()) == 1
    door.hangs.clear()
    site.call("epilog", env(PROLOG))
    soon(lambda: len(door.bodies) == 2 and not site.files())


def test_the_spool_is_bounded_and_the_oldest_go_first(site: Site, door: Door) -> None:
    door.down()
    site.configure((site.folder / "hook.conf").read_text() + "keep=3\n")
    for number in range(1, 7):
        site.call("prolog", {**env(PROLOG), "SLURM_JOB_ID": str(number)})
        soon(lambda number=number: any(b"JOB_ID=%d" % number in path.read_bytes() for path in site.files()))
    soon(lambda: len(site.files()) == 3)
    kept = [sighting(path.read_bytes()).data.job_id for path in site.files()]  # type: ignore[attr-defined]
    assert kept == ["4", "5", "6"]


@pytest.mark.parametrize("answer", [400, 413, 422])
def test_what_is_refused_for_good_is_kept_apart_and_not_sent_again(site: Site, door: Door, answer: int) -> None:
    door.answer = answer
    site.call("prolog", env(PROLOG))
    soon(lambda: site.files(".refused"))
    door.answer = 200
    site.call("epilog", env(PROLOG))
    soon(lambda: len(door.bodies) == 2 and not site.files())
    assert len(site.files(".refused")) == 1


@pytest.mark.parametrize("answer", [401, 403, 429, 503])
def test_what_is_refused_for_now_is_sent_again(site: Site, door: Door, answer: int) -> None:
    door.answer = answer
    site.call("prolog", env(PROLOG))
    soon(lambda: door.bodies)
    door.answer = 200
    site.call("epilog", env(PROLOG))
    soon(lambda: len(door.bodies) == 3 and not site.files())
    assert door.bodies[0] == door.bodies[1]


def test_without_a_spool_it_is_sent_all_the_same(site: Site, door: Door) -> None:
    (site.folder / "file").write_text("")
    site.configure((site.folder / "hook.conf").read_text().replace(str(site.spool), str(site.folder / "file" / "x")))
    site.call("prolog", env(PROLOG))
    soon(lambda: door.bodies)
    assert sighting(door.bodies[0]).data.job_id == "2"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", [None, "url='", "exit 3\n", "false\nurl=\n", "url=no-such-scheme:x\n"])
def test_with_bad_settings_it_exits_with_0_at_once(site: Site, text: str | None) -> None:
    if text is None:
        (site.folder / "hook.conf").unlink()
    else:
        site.configure(text + f"\nspool={site.spool}\npauses=\n")
    assert site.call("prolog", env(PROLOG)) < AT_ONCE


def test_settings_to_copy_are_read(site: Site) -> None:
    shown = subprocess.run(
        ["sh", "-c", f'. "{DEPLOY / "hook.conf.example"}"; echo "$url"'], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "https://hallbook.example.org/api/v1/ingest/slurm/hook\n"

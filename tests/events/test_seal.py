"""`verify` names the position of whatever is not as it was written."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections

from events.append import Fact, LogBusy, append, fact
from events.seal import Damage, seal, verify_chain
from events.tasks import free_head
from events.types.clusters import ClusterDeclared

TABLES = ("events_event", "events_eventkey", "events_block")


def said(number: int) -> Fact:
    data = ClusterDeclared(cluster=f"c{number}", gpus=number)
    return fact(
        data, type_="cluster.declared", source="s", source_key=f"k{number}", occurred_us=number * 10**6, actor="t"
    )


@pytest.fixture
def log(hall: dict[str, str]) -> dict[str, str]:
    """Seven events in three blocks: positions 1-2, 3-5 and 6-7."""
    for numbers in (range(1, 3), range(3, 6), range(6, 8)):
        append([said(number) for number in numbers])
    return hall


def tamper(*statements: str) -> None:
    """What somebody with the owner's password could do."""
    with connections["owner"].cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for statement in statements:
            cursor.execute(statement)
            assert cursor.rowcount == 1, statement
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def event(change: str) -> str:
    return f"UPDATE events_event SET {change} WHERE position = 4"


DIGEST = "position 4: what is stored is not what was written"
KEY_OF_4 = "(SELECT id FROM events_event WHERE position = 4)"
DAMAGES = {
    "data": (event("data = jsonb_set(data, '{gpus}', '5')"), DIGEST),
    "a field more": (event("""data = data || '{"more": 1}'"""), DIGEST),
    "stream": (event("stream = 'cluster/c5'"), DIGEST),
    "occurred_at": (event("occurred_at = occurred_at + interval '1 microsecond'"), DIGEST),
    "type": (event("type = 'cluster.declarec'"), DIGEST),
    "version": (event("version = 2"), DIGEST),
    "actor": (event("actor = 'u'"), DIGEST),
    "source_key": (event("source_key = 'k5'"), "position 4: its id does not belong to its source and key"),
    "source": (event("source = 't'"), "position 4: its id does not belong to its source and key"),
    "id": (event("id = '00000000-0000-0000-0000-000000000000'"), "position 4: its id does not belong"),
    "recorded_at": (event("recorded_at = recorded_at - interval '1 second'"), "position 4: its time of recording"),
    "delivery": (event("delivery = gen_random_uuid()"), "positions 3 to 5: the hash chain does not fit"),
    "digest of the key": (
        f"UPDATE events_eventkey SET digest = set_byte(digest, 31, get_byte(digest, 31) # 1) WHERE key = {KEY_OF_4}",
        DIGEST,
    ),
    "position of the key": (
        f"UPDATE events_eventkey SET position = 5 WHERE key = {KEY_OF_4}",
        "position 4: its key is missing or names another",
    ),
    "a removed key": (f"DELETE FROM events_eventkey WHERE key = {KEY_OF_4}", "position 4: its key is missing"),
    "a removed event": ("DELETE FROM events_event WHERE position = 4", "position 4 is missing"),
    "the last event removed": ("DELETE FROM events_event WHERE position = 7", "position 7 is missing"),
    "a moved event": ("UPDATE events_event SET position = 8 WHERE position = 4", "position 4 is missing"),
    "hash of a block": (
        "UPDATE events_block SET hash = set_byte(hash, 0, get_byte(hash, 0) # 1) WHERE upto = 5",
        "positions 3 to 5: the hash chain",
    ),
    "time of a block": (
        "UPDATE events_block SET recorded_at = recorded_at - interval '1 second' WHERE upto = 5",
        "position 3: its time of recording",
    ),
    "a removed block": ("DELETE FROM events_block WHERE upto = 5", "positions 3 to 7: the block says 2 events"),
    "the last block removed": (
        "DELETE FROM events_block WHERE upto = 7",
        "the head says position 7, the last block ends at 5",
    ),
    "position of the head": (
        "UPDATE events_head SET position = 6",
        "the head says position 6, the last block ends at 7",
    ),
    "hash of the head": ("UPDATE events_head SET hash = set_byte(hash, 0, get_byte(hash, 0) # 1)", "the head"),
    "an event past the head": (
        """INSERT INTO events_event SELECT shard, 8, gen_random_uuid(), source, 'k8', type, version, stream,
           occurred_at, recorded_at, actor, delivery, data FROM events_event WHERE position = 7""",
        "position 8 lies after the head",
    ),
}  # fmt: skip


def test_a_log_as_it_was_written_passes(log: dict[str, str]) -> None:
    seen: list[int] = []
    sealed = verify_chain(tick=seen.append)
    assert (sealed.position, sealed.events, sum(seen)) == (7, 7, 7)
    assert len(sealed.hash) == 32


def test_an_empty_log_passes(hall: dict[str, str]) -> None:
    assert verify_chain()[:] == (0, 0, b"")


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_changed_byte_is_named_with_its_position(log: dict[str, str], damage: str) -> None:
    statement, words = DAMAGES[damage]
    tamper(statement)
    with pytest.raises(Damage, match=re.escape(words)):
        verify_chain()


def test_since_trusts_what_lies_before(log: dict[str, str]) -> None:
    tamper("UPDATE events_event SET actor = 'u' WHERE position = 2")
    assert verify_chain(2)[:2] == (7, 5)
    assert verify_chain(4)[:2] == (7, 5), "a position inside a block starts at the block's beginning"
    assert verify_chain(7)[:2] == (7, 0)
    with pytest.raises(Damage, match="position 2"):
        verify_chain(1)
    with pytest.raises(CommandError, match="position 2"):
        call_command("verify", "--chain-only")
    call_command("verify", "--chain-only", "--since", "2")


def test_the_command_exits_with_1_and_one_line(log: dict[str, str]) -> None:
    tamper(event("data = jsonb_set(data, '{gpus}', '5')"))
    done = subprocess.run(
        [sys.executable, "manage.py", "verify"],
        env=log,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().splitlines() == [
        "CommandError: position 4: what is stored is not what was written (digest differs)"
    ]


def test_a_log_cut_behind_a_seal_is_named(log: dict[str, str]) -> None:
    """Cut to position 5 with a head that fits: only what was sealed before shows it."""
    seal("the auditor", now=datetime(2026, 11, 30, tzinfo=UTC))
    verify_chain()
    cut = [
        "DELETE FROM events_event WHERE position > 6",
        "DELETE FROM events_event WHERE position = 6",
        "DELETE FROM events_eventkey WHERE position = 7",
        "DELETE FROM events_eventkey WHERE position = 6",
        "DELETE FROM events_block WHERE upto = 7",
        "UPDATE events_head SET position = 5, hash = (SELECT hash FROM events_block WHERE upto = 5)",
    ]
    tamper(*cut)
    with pytest.raises(Damage, match="position 7: the head that was sealed there is no longer in the chain"):
        verify_chain()


def test_a_writer_that_stalls_under_the_lock_is_ended(log: dict[str, str]) -> None:
    """A stopped process keeps its session: others are refused until the worker ends it; nothing of it stays."""
    with psycopg.connect(log["DATABASE_URL"]) as stalled:
        stalled.execute("SELECT position FROM events_head FOR UPDATE")
        with pytest.raises(LogBusy):
            append([said(8)])
        assert free_head(3600) == 0
        assert free_head(0) == 1
        assert append([said(8)])[0].position == 8
        with pytest.raises(psycopg.OperationalError):
            stalled.execute("SELECT 1")

"""The only writer: positions without holes, duplicates, conflicts, expectations, claims."""

from __future__ import annotations

import hashlib
import json

import pytest
from django.db import connection

from events.append import Claim, ClaimTaken, Fact, StreamMoved, append, fact, key_of
from events.types.clusters import ClusterDeclared

pytestmark = pytest.mark.django_db


def said(name: str, key: str = "", gpus: int | None = None, actor: str = "t") -> Fact:
    data = ClusterDeclared(cluster=name, gpus=gpus)
    return fact(data, type_="cluster.declared", source="s", source_key=key or name, occurred_us=5_000_000, actor=actor)


def test_positions_follow_order_without_holes() -> None:
    one = append([said("a"), said("b")])
    two = append([said("c"), said("a"), said("d")])
    assert [(o.status, o.position) for o in one] == [("accepted", 1), ("accepted", 2)]
    assert [(o.status, o.position) for o in two] == [("accepted", 3), ("duplicate", 1), ("accepted", 4)]


def test_key_and_digest_are_those_of_the_design() -> None:
    item = said("a", key="k", gpus=8)
    assert key_of("s", "k") == hashlib.sha256(b"s\0k").digest()[:16]
    body = '["s","k","cluster.declared",1,"cluster/a",5000000,"t",{"cluster":"a","gpus":8}]'
    assert item.digest == hashlib.sha256(body.encode()).digest()
    assert json.loads(item.data) == {"cluster": "a", "gpus": 8}


def test_same_key_other_content_is_a_conflict_and_changes_nothing() -> None:
    append([said("a", key="k", gpus=1)])
    assert append([said("a", key="k", gpus=2)])[0].status == "conflict"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), max(data->>'gpus') FROM events_event")
        assert cursor.fetchone() == (1, "1")


def test_same_fact_by_another_actor_is_a_duplicate() -> None:
    append([said("a", actor="one")])
    assert append([said("a", actor="two")])[0].status == "duplicate"


def test_repeats_inside_one_batch() -> None:
    outcomes = append([said("a", key="k"), said("a", key="k"), said("a", key="k", gpus=3)])
    assert [o.status for o in outcomes] == ["accepted", "duplicate", "conflict"]


def test_expectation_of_a_stream() -> None:
    at = append([said("a")])[0].position
    append([said("a", key="next")], expect={"cluster/a": at})
    with pytest.raises(StreamMoved, match="cluster/a is at position 2, not 1"):
        append([said("a", key="late")], expect={"cluster/a": at})


def test_claim_is_held_by_one_stream() -> None:
    append([said("a")], claims=[Claim("run", "r1", "cluster/a")])
    append([said("a", key="again")], claims=[Claim("run", "r1", "cluster/a")])
    with pytest.raises(ClaimTaken, match="run r1 is held by cluster/a"):
        append([said("b")], claims=[Claim("run", "r1", "cluster/b")])
    assert append([said("b")])[0].position == 3


def test_nothing_to_append() -> None:
    assert append([]) == []

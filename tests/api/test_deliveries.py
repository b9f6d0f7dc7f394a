"""The drain: kept bodies become events, all of a batch or none."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError
from django.test import Client

from events import deliveries, queries
from events.access import Scope
from events.deliveries import accept_delivery, drain
from tests.api.clouds import STRUCTURED, cloud

EVERYTHING = Scope.everything()
Make = Callable[..., Client]


def keep(body: bytes | dict[str, Any], kind: str = "cloudevents", actor: str = "token:t") -> uuid.UUID:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return accept_delivery(source="slurm/pod-a", kind=kind, content_type=STRUCTURED, headers={}, body=raw, actor=actor)


def states() -> dict[uuid.UUID, str]:
    return dict(queries.deliveries(EVERYTHING).values_list("id", "state"))


@pytest.mark.django_db
def test_pending_deliveries_enter_in_order_with_their_ids_and_actors() -> None:
    kept = [keep(cloud(f"e{number}"), actor=f"token:{number % 2}") for number in range(5)]
    assert drain(limit=3) == 3
    assert drain() == 2
    assert drain() == 0
    found = queries.events(EVERYTHING).values_list("source_key", "delivery", "actor")
    assert list(found) == [(f"e{number}", kept[number], f"token:{number % 2}") for number in range(5)]
    assert set(states().values()) == {"done"}


@pytest.mark.django_db
def test_binary_mode_keeps_its_attributes(caller: Make) -> None:
    event = cloud("b%20x", source="slurm/%C3%BC")
    headers = {f"ce-{name}": event[name] for name in ("specversion", "id", "source", "type", "time")}
    answer = caller("events:write").post(
        "/api/v1/events", json.dumps(event["data"]), content_type="application/json", headers=headers
    )
    assert answer.status_code == 200
    assert drain() == 1
    (row,) = queries.events(EVERYTHING)
    assert (row.source, row.source_key, row.data) == ("slurm/ü", "b x", event["data"])


@pytest.mark.django_db
def test_what_is_wrong_becomes_a_rejection_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("cannot bear it")

    monkeypatch.setitem(deliveries.ADAPTERS, "broken", broken)
    good, bad, raising, unknown = (
        keep(cloud("good")), keep(cloud("bad", data={"gpus": -1})), keep(b"{1}", "broken"), keep(b"{2}", "nobody")
    )  # fmt: skip
    clash, last = keep(cloud("good", data={"gpus": 4})), keep(cloud("last"))
    assert drain() == 6
    assert states() == {
        good: "done", bad: "rejected", raising: "rejected", unknown: "rejected", clash: "rejected", last: "done"
    }  # fmt: skip
    found = dict(queries.rejections(EVERYTHING).values_list("delivery", "code"))
    assert found == {
        bad: "invalid", raising: "adapter_error", unknown: "adapter_error", clash: "conflict"
    }  # fmt: skip
    assert [row.source_key for row in queries.events(EVERYTHING)] == ["good", "last"]


@pytest.mark.django_db
def test_a_body_that_the_database_refuses_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real = deliveries.admit

    def picky(kept: Any, refused: Any) -> Any:
        if any(draft.native_key == "poison" for _, draft, _ in kept):
            raise DataError("no")
        return real(kept, refused)

    monkeypatch.setattr(deliveries, "admit", picky)
    kept = {name: keep(cloud(name)) for name in ("a", "b", "poison", "c", "d")}
    assert drain() == 5
    assert states() == {id_: "rejected" if name == "poison" else "done" for name, id_ in kept.items()}
    assert [row.code for row in queries.rejections(EVERYTHING)] == ["append_error"]


def test_a_drain_killed_midway_leaves_nothing_and_the_next_does_all(hall: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        keep(cloud(f"e{number}"))

    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        assert queries.head_position() == 3  # appended, not committed
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(deliveries, "_settle", die)
        with pytest.raises(Killed):
            drain()
    assert (queries.head_position(), set(states().values())) == (0, {"pending"})
    assert drain() == 3
    assert (queries.head_position(), set(states().values())) == (3, {"done"})


@pytest.mark.django_db
def test_what_became_of_a_delivery(caller: Make) -> None:
    client = caller("log:read")
    done, bad = keep(cloud("fate")), keep(cloud("bad", data={"gpus": -1}))
    assert client.get(f"/api/v1/deliveries/{done}").json()["state"] == "pending"
    drain()
    fate = client.get(f"/api/v1/deliveries/{done}").json()
    position = queries.head_position()
    assert (fate["state"], fate["events"], fate["rejections"]) == ("done", [position], [])
    fate = client.get(f"/api/v1/deliveries/{bad}").json()
    assert (fate["state"], fate["events"], len(fate["rejections"])) == ("rejected", [], 1)
    assert fate["error"].startswith("invalid: ")

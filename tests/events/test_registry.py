"""The vocabulary: names, versions, upcasters, and what a field may hold."""

from __future__ import annotations

import pytest

from events.types.registry import EventStruct, EventType, Registry, UnknownType


class DiskSwappedV1(EventStruct, frozen=True):
    node: str
    minutes: int


class DiskSwapped(EventStruct, frozen=True):
    node: str
    seconds: int


class Weighed(EventStruct, frozen=True):
    kilograms: float


def stream(data: DiskSwapped) -> str:
    return f"node/{data.node}"


def registry() -> Registry:
    found = Registry()

    def to_seconds(data: dict[str, object]) -> dict[str, object]:
        return {"node": data["node"], "seconds": int(str(data["minutes"])) * 60}

    found.add(EventType("disk.swapped", 1, DiskSwappedV1, stream, 50, "", to_seconds))
    found.add(EventType("disk.swapped", 2, DiskSwapped, stream, 50, ""))
    return found


def test_an_old_version_is_read_as_the_latest() -> None:
    assert registry().load("disk.swapped", 1, '{"node":"gpu001","minutes":3}') == DiskSwapped("gpu001", 180)
    assert registry().load("disk.swapped", 2, '{"node":"gpu001","seconds":5}') == DiskSwapped("gpu001", 5)


def test_an_unknown_version_is_told() -> None:
    with pytest.raises(UnknownType, match=r"unknown event type disk.swapped version 3"):
        registry().load("disk.swapped", 3, "{}")


def test_a_version_without_upcaster_is_told() -> None:
    found = Registry()
    found.add(EventType("disk.swapped", 1, DiskSwappedV1, stream, 50, ""))
    found.add(EventType("disk.swapped", 2, DiskSwapped, stream, 50, ""))
    with pytest.raises(UnknownType, match=r"disk.swapped v1 has no upcaster to v2"):
        found.load("disk.swapped", 1, '{"node":"a","minutes":1}')


def test_floats_are_refused() -> None:
    with pytest.raises(ValueError, match=r"scale.weighed.kilograms: <class 'float'> is not an integer"):
        Registry().add(EventType("scale.weighed", 1, Weighed, stream, 50, ""))


@pytest.mark.parametrize("name", ["Disk.Swapped", "swapped", "disk-swapped", "disk.swapped.twice"])
def test_names_are_noun_and_past_verb(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form noun.past_verb"):
        Registry().add(EventType(name, 1, DiskSwapped, stream, 50, ""))


def test_a_version_is_registered_once() -> None:
    found = registry()
    with pytest.raises(ValueError, match=r"disk.swapped v2 is registered twice"):
        found.add(EventType("disk.swapped", 2, DiskSwapped, stream, 50, ""))

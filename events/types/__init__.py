"""The vocabulary of the log. Importing this package registers every event type."""

from events.types import (
    accounts,
    clusters,
    corrections,
    faults,
    jobs,
    nodes,
    projects,
    rates,
    runs,
    scaling,
    shares,
    training,
)
from events.types.registry import PERSON, REGISTRY, TEXT, EventStruct, EventType, UnknownType, event

__all__ = [
    "PERSON",
    "REGISTRY",
    "TEXT",
    "EventStruct",
    "EventType",
    "UnknownType",
    "accounts",
    "clusters",
    "corrections",
    "event",
    "faults",
    "jobs",
    "nodes",
    "projects",
    "rates",
    "runs",
    "scaling",
    "shares",
    "training",
]

"""Energy out of a captured run of Prometheus, against what the simulation behind it says that it used.

The journal of the run holds the simulation's own joules at each of its steps, so that stretches between two steps have
a truth that does not depend on labels or on when something was scraped.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from events.adapters.places import owner_of, place_of
from events.adapters.remote_write import decode
from events.derive.energy import Limits, Reading, counter_uj, metered, power_mw
from events.derive.overhead import shared
from tests.events.adapters.telemetry import bodies

J = 1_000_000
LIMITS = Limits(gap_ms=15_000, extend_ms=10_000)
"""Scraped every 5 s."""
WALL = LIMITS._replace(most_mw=20_000_000)
GPU = tuple[str, int]
OWN: dict[str, list[GPU]] = {
    "4101": [(node, gpu) for node in ("gpu001", "gpu002") for gpu in range(8)],
    "4102": [("gpu003", gpu) for gpu in range(4)],
    "4103": [("gpu003", gpu) for gpu in range(4, 8)],
    "pod:llm-pretrain-worker": [(node, gpu) for node in ("gpu007", "gpu008") for gpu in range(8)],
}


class Run(NamedTuple):
    """Readings of GPUs and of whole nodes; the simulation's truth by the second of a step; labelled owners."""

    gpus: dict[GPU, list[Reading]]
    nodes: dict[str, list[Reading]]
    truth: dict[int, tuple[int, dict[str, dict[str, float]]]]
    owners: dict[GPU, set[str]]


@pytest.fixture
def run(data: Path) -> Run:
    folder = data / "telemetry" / "prometheus-run"
    found = Run(defaultdict(list), defaultdict(list), {}, defaultdict(set))
    for body in bodies(folder, "-rw.bin"):
        if body.answered == 204:
            got = decode(body.content_type, body.headers, body.raw)
            for series, t_ms, value in zip(got.series, got.t_ms, got.value, strict=True):
                _note(found, series, t_ms, value)
    for line in (folder / "journal.jsonl").read_text().splitlines():
        said = json.loads(line)
        if "truth" in said:
            found.truth[said["step"]["at"]] = (int(said["unix"] * 1000), said["truth"])
    return found


def _note(run: Run, series: Any, t_ms: int, value: float | None) -> None:
    labels = series.named()
    place = place_of(labels, series.metric)
    gpu = (place.node or "", place.gpu or 0)
    if series.metric == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION":
        run.gpus[gpu].append(Reading(t_ms, counter_uj(value)))
        run.owners[gpu].add(owner_of(labels) or "")
    elif series.metric == "DCGM_FI_DEV_POWER_USAGE":
        run.gpus[gpu].append(Reading(t_ms, None, power_mw(value)))
    elif series.metric == "node_chassis_power_watts":
        run.nodes[place.node or ""].append(Reading(t_ms, None, power_mw(value, WALL.most_mw)))


def span(readings: list[Reading]) -> tuple[int, int]:
    times = [one.t_ms for one in readings]
    return min(times), max(times)


def used(run: Run, owner: str, start: int, end: int) -> float:
    """Joules of an owner's GPUs between two instants."""
    return sum(s.uj for gpu in OWN[owner] for s in metered(run.gpus[gpu], start, end, (), LIMITS)) / J


@pytest.mark.parametrize(
    ("owner", "low", "high"),
    [("4101", 12, 30), ("4101", 40, 110), ("4102", 12, 102), ("4103", 12, 170), ("pod:llm-pretrain-worker", 12, 170)],
)
def test_owners_within_a_thousandth_of_the_truth(run: Run, owner: str, low: int, high: int) -> None:
    """Outages of the receiver, two lost batches, a restart of Prometheus lie inside. Asked for: 0.5 %."""
    (start, before), (end, after) = run.truth[low], run.truth[high]
    truth = after["job_gpu_joules"][owner] - before["job_gpu_joules"][owner]
    assert used(run, owner, start, end) == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("owner", ["4103", "pod:llm-pretrain-worker"])
def test_the_two_ways_give_what_another_reader_worked_out(run: Run, data: Path, owner: str) -> None:
    """expected.json, for the owners whose labels never changed; the trapezoid there bridges every gap."""
    expected = json.loads((data / "telemetry" / "expected.json").read_text())["per_owner"][owner]
    counter = trapezoid = 0
    for gpu in OWN[owner]:
        readings = run.gpus[gpu]
        start, end = span(readings)
        counter += sum(s.uj for s in metered(readings, start, end, (), LIMITS))
        bare = [one._replace(energy_uj=None) for one in readings]
        trapezoid += sum(s.uj for s in metered(bare, start, end, (), LIMITS))
    assert counter / J == pytest.approx(expected["gpu_joules_counter"], abs=0.1)
    assert trapezoid / J == pytest.approx(expected["gpu_joules_trapezoid"], rel=1e-5)


def test_a_gpu_that_fell_off_the_bus_is_missing_from_then_on(run: Run) -> None:
    """XID 79 at +30 s: only its XID series stays. Its last power holds for 10 s, then nothing is told."""
    (start, _), (end, _) = run.truth[33], run.truth[140]
    stretches = metered(run.gpus["gpu001", 5], start, end, (), LIMITS)
    assert sum(s.missing_ms for s in stretches) > 100_000
    assert sum(s.measured_ms for s in stretches) == 0


def test_a_reboot_is_a_reset_of_each_gpu(run: Run, data: Path) -> None:
    expected = json.loads((data / "telemetry" / "expected.json").read_text())["counter_resets"]
    resets = {}
    for gpu, readings in run.gpus.items():
        found = metered(readings, *span(readings), (), LIMITS)
        if count := sum(s.resets for s in found):
            resets[gpu] = count
    assert sum(resets.values()) == expected["count"] == 8
    assert sorted({node for node, _ in resets}) == expected["nodes"]


def test_a_node_is_its_gpus_and_the_rest_exactly(run: Run) -> None:
    """gpu003 from +12 s to +102 s, shared by two jobs. Truth of the rest: wall less the GPUs of both jobs."""
    (start, before), (end, after) = run.truth[12], run.truth[102]
    node = metered(run.nodes["gpu003"], start, end, (), WALL)
    gpus = {gpu: metered(run.gpus["gpu003", gpu], start, end, (), LIMITS) for gpu in range(8)}
    total = 0
    for index, stretch in enumerate(node):
        found = shared(stretch, {gpu: each[index] for gpu, each in gpus.items()}, range(8))
        assert sum(found.by_gpu.values()) + found.idle_uj == stretch.uj
        assert (found.short_uj, found.unknown_ms) == (0, 0)
        total += found.overhead_uj
    wall = after["node_wall_joules"]["gpu003"] - before["node_wall_joules"]["gpu003"]
    jobs = sum(after["job_gpu_joules"][job] - before["job_gpu_joules"][job] for job in ("4102", "4103"))
    assert sum(s.uj for s in node) / J == pytest.approx(wall, rel=1e-3)
    assert total / J == pytest.approx(wall - jobs, rel=5e-3)


def test_labels_name_the_owners(run: Run) -> None:
    """gpu008 is scraped as Kubernetes does it: the exporter's own pod is no owner."""
    assert run.owners["gpu003", 0] == {"4102", "4105"}
    assert run.owners["gpu002", 0] == {"4101", "4104", ""}
    assert run.owners["gpu005", 0] == {""}
    assert {name.partition("/")[0] for name in run.owners["gpu008", 0]} == {"pod:team-vision"}
    assert run.owners["gpu007", 3] == {"pod:team-vision/llm-pretrain-worker-0"}

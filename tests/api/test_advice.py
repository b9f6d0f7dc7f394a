"""How often a run should save, by REST: the figures of its page. Worked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from events import projector
from jobs.models import Run
from tests.hand import gpus, job, mapped, place, project, say
from tests.jobs.test_other_ends import cancelled
from tests.jobs.test_training import BEGIN

pytestmark = pytest.mark.usefixtures("hall")
Make = Callable[..., Client]


def advice(client: Client) -> dict[str, Any]:
    answer = client.get(f"/api/v1/runs/{Run.objects.get().id}/advice")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def test_failures_are_apart_and_all_ends_that_lost_work_are_weighed(caller: Make) -> None:
    """39,600 s on 2 nodes: a node fails once in 200 + 11/12 days, the run once in 8,679,600 s; one cancelled that went
    back in 39,600 s: together one in 39,420.1486 s. By Gamma(1) the 90 % interval of the rate is -ln 0.95 to -ln 0.05
    of its mean. Young: sqrt(2 x 30 x 39,420.1486) = 1,537.93 s. Saves of 180 s every 7,200 s."""
    cancelled()
    body = advice(caller("read"))
    assert (body["instrumented"], body["refused"], body["failures"], body["others"]) == (True, "", 0, {"CANCELLED": 1})
    assert (body["ran"], body["mtto"], body["blocking"], body["interval"]) == (39_600, 39_600, 30, 7200)
    assert body["node_days"] == pytest.approx(11 / 12)
    assert body["mttf"] == pytest.approx(8_679_600)
    assert body["mttf_low"] == pytest.approx(8_679_600 / -math.log(0.05), rel=1e-6)
    assert body["mttf_high"] == pytest.approx(8_679_600 / -math.log(0.95), rel=1e-6)
    assert body["mtti"] == pytest.approx(39_420.1486, abs=1e-3)
    assert body["young"] == pytest.approx(1537.93, abs=0.01)
    assert (body["band"]["floor"], body["band"]["limited"]) == (180, False)
    assert body["band"]["low"] < body["daly"] == body["band"]["best"] < body["band"]["high"] < 7200
    assert body["saving_gpu_seconds"] > 0
    best, now, twice = body["losses"]
    assert (best["word"], now["word"], now["interval"], twice["word"]) == ("best", "now", 7200, "twice the best")
    assert now["saving"] == pytest.approx(30 / 7230)
    assert now["interrupted"] == pytest.approx((3600 + body["restart"]) / 39_420.1486, rel=1e-6)


def test_of_a_silent_run_there_is_none_and_it_says_why(caller: Make) -> None:
    say(place(), project("nlp"), mapped("a", "nlp"), job("1", BEGIN, BEGIN + 3600, run="big", **gpus(8)))
    projector.catch_up()
    body = advice(caller("read"))
    assert (body["instrumented"], body["mttf"], body["band"], body["losses"]) == (False, None, None, [])
    assert body["refused"] == "Its programs told nothing, so nothing is known of its saves."

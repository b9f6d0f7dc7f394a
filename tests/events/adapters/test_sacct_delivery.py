"""`sacct -P` text that was posted: the same as from a file, with zone and cluster from the delivery."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.adapters import Draft, Refusal
from events.adapters.sacct_delivery import sacct_text
from tests.events.adapters.sacct_files import SACCT, read_file
from tests.events.adapters.slurm_documents import body, of_job

UTC = {"x-hallbook-timezone": "UTC"}
TEXT = b"JobIDRaw|State|Submit|Start|End|Comment\n7|COMPLETED|1000|1010|1070|run=atlas x\n"


def test_a_posted_file_says_what_the_file_says() -> None:
    made = sacct_text("text/plain", UTC, body(SACCT / "all_duplicates.psv.gz"))
    expected = read_file(SACCT / "all_duplicates.psv.gz")
    assert len(made) == len(expected)
    for found, item in zip(made, expected, strict=True):
        assert found.source == "sacct:pod-a"
        if isinstance(found, Draft):
            assert msgspec.structs.replace(found, source="") == item
        else:
            assert isinstance(item, Refusal)
            assert (found.index, found.code, found.payload) == (item.index, item.code, item.payload)


def test_local_times_are_of_the_zone_that_is_told() -> None:
    """Oddity 4: the rig's zone is 11 hours behind UTC, and nothing in the file says so."""
    headers = {"x-hallbook-timezone": "Etc/GMT+11", "x-hallbook-cluster": "pod-a"}
    made = sacct_text("text/plain", headers, body(SACCT / "jobs_only_rig_tz.psv"))
    expected = read_file(SACCT / "jobs_only_rig_tz.psv", zone=ZoneInfo("Etc/GMT+11"))
    assert [of_job(item).start for item in made if isinstance(item, Draft)] == [
        of_job(item).start for item in expected if isinstance(item, Draft)
    ]
    assert 1796036274 in {of_job(item).start for item in made if isinstance(item, Draft)}


def test_the_unit_separator_is_known_by_the_header() -> None:
    text = TEXT.replace(b"|", b"\x1f").replace(b"atlas x", b"atlas|x")
    (made,) = sacct_text("text/plain", {**UTC, "x-hallbook-cluster": "pod-b"}, b"\n" + text)
    assert (of_job(made).cluster, of_job(made).comment, of_job(made).run) == ("pod-b", "run=atlas|x", "atlas")
    assert made.index == 3


@pytest.mark.parametrize(
    ("headers", "text", "code"),
    [
        ({"x-hallbook-cluster": "pod-a"}, TEXT, "timezone_missing"),
        ({"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "Mars/Olympus"}, TEXT, "bad_timezone"),
        ({"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "America"}, TEXT, "bad_timezone"),
        (UTC, TEXT, "cluster_missing"),
        ({**UTC, "x-hallbook-cluster": "a/b"}, TEXT, "bad_name"),
        ({**UTC, "x-hallbook-cluster": "pod-b"}, b"JobIDRaw|State|Cluster\n7|COMPLETED|pod-a\n", "cluster_mismatch"),
        (UTC, b"", "malformed"),
        (UTC, b'{"jobs": []}', "malformed"),
        (UTC, b"just words\n", "malformed"),
    ],
)
def test_a_body_that_cannot_be_read(headers: dict[str, str], text: bytes, code: str) -> None:
    (item,) = sacct_text("text/plain", headers, text)
    assert isinstance(item, Refusal)
    assert item.code == code


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: TEXT + tail))
@settings(max_examples=80)
def test_any_bytes_are_read_or_refused(sent: bytes) -> None:
    for item in sacct_text("", {**UTC, "x-hallbook-cluster": "pod-a"}, sent):
        assert isinstance(item, Draft | Refusal)

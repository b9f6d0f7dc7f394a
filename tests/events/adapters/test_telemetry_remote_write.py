"""Remote write: the captures with their counts, and our reader against Google's protobuf library."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.adapters import remote_write
from events.adapters.remote_write import Protocol, decode, negotiated
from events.adapters.samples import MOST_REFUSALS, Samples, Unreadable, make_series
from tests.events.adapters.telemetry import MESSAGES, PAYLOADS, V1, V2, bodies, squeezed, write_request

NOON = 1_796_036_400_000
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
UP = {"__name__": "up", "instance": "gpu001:9100", "job": "node"}


def read(raw: bytes, content_type: str = V1) -> Samples:
    return decode(content_type, {"content-encoding": "snappy"}, raw)


def refused(raw: bytes, content_type: str = V1, **headers: str) -> Unreadable:
    with pytest.raises(Unreadable) as found:
        decode(content_type, {"content-encoding": "snappy"} | headers, raw)
    return found.value


class TestPrometheusRun:
    """One run of Prometheus 2.42 of 192 s; the counts are those of expected.json, made by another reader."""

    def test_counts(self, data: Path) -> None:
        expected = json.loads((data / "telemetry" / "expected.json").read_text())["counts"]
        count: Counter[str] = Counter()
        known: dict[tuple[bytes, int], float | None] = {}
        for body in bodies(data / "telemetry" / "prometheus-run", "-rw.bin"):
            found = decode(body.content_type, body.headers, body.raw)
            assert found.refused_count == 0
            count["requests"] += 1
            count[f"requests_answered_{body.answered}"] += 1
            count["samples_sent"] += len(found)
            count["exemplars_sent"] += found.ignored.exemplars
            count["metadata_requests"] += not len(found) and bool(found.described)
            if body.answered != 204:
                continue
            count["samples_accepted"] += len(found)
            count["stale_markers"] += found.stale
            for series, t_ms, value, _ in found.rows():
                again = (series, t_ms) in known
                count["samples_accepted_again"] += again
                count["same_time_other_value"] += again and known[series, t_ms] != value
                known[series, t_ms] = value
        count["distinct_samples"] = len(known)
        count["distinct_series"] = len({series for series, _ in known})
        assert {name: count[name] for name in expected} == expected

    def test_what_the_readme_of_the_capture_tells(self, data: Path) -> None:
        run = {one.name[:4]: decode(one.content_type, one.headers, one.raw)
               for one in bodies(data / "telemetry" / "prometheus-run", "-rw.bin")}  # fmt: skip
        assert run["0076"].stale + run["0077"].stale == 168  # target gpu004 stops answering
        assert [len(run["0126"]), len(run["0132"])] == [269, 264]  # the two batches that were lost
        assert run["0010"].ignored.exemplars == run["0094"].ignored.exemplars == 1
        family = next(one for one in run["0005"].described if one.family == "DCGM_FI_DEV_XID_ERRORS")
        assert (family.kind, family.help) == ("gauge", "number of the latest XID, 0 when none")
        assert list(run["0144"].rows()) == list(run["0152"].rows())  # delivered twice


class TestOtherClients:
    def test_vmagent(self) -> None:
        found = {
            one.name: decode(one.content_type, one.headers, one.raw)
            for one in bodies(PAYLOADS / "other-clients", "-rw.bin")
        }
        vmagent = {name: one for name, one in found.items() if "otel" not in name}
        assert [len(one) for one in vmagent.values()] == [158] * 11 + [6, 152, 158, 6]
        assert {name: one.stale for name, one in vmagent.items() if one.stale} == {"0013-rw.bin": 152}
        otel = [one for name, one in found.items() if "otel" in name]
        assert [len(one) for one in otel] == [35, 35, 35]
        assert {"checkpoint_write_duration_s_count", "training_steps__step_"} <= {one.metric for one in otel[0].series}

    def test_2_0_says_what_the_1_0_body_said_that_it_was_made_of(self, data: Path) -> None:
        """The constructed bodies were encoded from the first captured batch of over 150 series, and of 20 markers."""
        run = [decode(one.content_type, one.headers, one.raw)
               for one in bodies(data / "telemetry" / "prometheus-run", "-rw.bin")]  # fmt: skip
        origins = {
            "constructed-rw2-batch.bin": next(one for one in run if len(one) + one.ignored.exemplars > 150),
            "constructed-rw2-stale.bin": next(one for one in run if one.stale > 20),
        }
        for body in bodies(PAYLOADS / "constructed", ".bin"):
            found = decode(body.content_type, body.headers, body.raw)
            assert list(found.rows()) == list(origins[body.name].rows())
            assert remote_write.written(found)["X-Prometheus-Remote-Write-Samples-Written"] == str(len(found))
            kinds = {one.family: one.kind for one in found.described}
            assert kinds["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == "counter"


class TestNegotiation:
    @pytest.mark.parametrize(
        ("content_type", "protocol"),
        [
            (V1, Protocol.V1),
            ("Application/X-Protobuf", Protocol.V1),
            ("application/x-protobuf; proto=prometheus.WriteRequest", Protocol.V1),
            ('application/x-protobuf;proto="io.prometheus.write.v2.Request"', Protocol.V2),
        ],
    )
    def test_protocols(self, content_type: str, protocol: Protocol) -> None:
        assert negotiated(content_type, {}) is protocol

    @pytest.mark.parametrize(
        "content_type", ["", "application/json", "text/plain", f"{V1};proto=io.prometheus.write.v3"]
    )
    def test_another_type_is_415(self, content_type: str) -> None:
        assert refused(write_request((UP, [(1, NOON)])), content_type).status == 415

    def test_another_encoding_is_415(self) -> None:
        assert refused(b"", **{"content-encoding": "zstd"}).status == 415

    def test_each_reader_refuses_the_other_s_body(self) -> None:
        """A 1.0 reader would find a 2.0 body empty, and answer 204 for samples it never saw."""
        newer = (PAYLOADS / "constructed" / "constructed-rw2-batch.bin").read_bytes()
        assert (refused(newer).status, refused(newer).code) == (415, "unsupported")
        older = (PAYLOADS / "other-clients" / "0001-rw.bin").read_bytes()
        assert refused(older, V2).status == 415


class TestBad:
    def test_not_snappy(self) -> None:
        for raw in (b"", b"\xff" * 30, b"\x05abc", squeezed(b"x" * 500)[:-3]):
            assert (refused(raw).status, refused(raw).code) == (400, "malformed")

    def test_a_bomb_is_refused_by_its_announced_length(self) -> None:
        found = refused(b"\x80\x80\x80\x80\x04" + b"\0" * 10)  # 2^30 bytes
        assert (found.status, found.code) == (413, "too_large")
        assert "1,073,741,824" in found.text

    def test_too_many_series(self) -> None:
        for raw, kind in ((b"\x0a\x00" * 60_000, V1), (b"\x2a\x00" * 60_000, V2), (b"\x22\x00" * 300_000, V2)):
            assert (refused(squeezed(raw), kind).status, refused(squeezed(raw), kind).code) == (413, "too_many")

    def test_broken_messages_say_where(self) -> None:
        whole = MESSAGES["Write"](timeseries=[{"labels": [{"name": "a", "value": "b"}], "samples": [{"timestamp": 5}]}])
        raw = whole.SerializeToString()
        assert "series 0 ends 1 bytes after the body" in refused(squeezed(raw[:-1])).text
        found = refused(squeezed(b"\x0a\x02\x12\x09"))  # a sample that is said to have 9 bytes
        assert (found.status, found.place) == (400, "/timeseries/0")
        assert "field 2 ends 9 bytes after its message" in found.text

    @pytest.mark.parametrize(
        ("labels", "code"),
        [
            ({"instance": "a"}, "metric_missing"),
            ({"__name__": ""}, "metric_missing"),
            ({"__name__": "up", "": "x"}, "label_bad"),
            ({"__name__": "up", "x": "a\0b"}, "label_bad"),
            ({"__name__": "up", "x" * 300: "a"}, "too_long"),
            ({"__name__": "up", "x": "a" * 5000}, "too_long"),
            ({"__name__": "up"} | {f"l{n}": "x" for n in range(130)}, "too_many_labels"),
        ],
    )
    def test_a_bad_series_is_refused_and_the_others_kept(self, labels: dict[str, str], code: str) -> None:
        found = read(write_request((UP, [(1, NOON)]), (labels, [(2, NOON), (3, NOON + 1)]), (UP, [(0, NOON + 5)])))
        assert [(one.pointer, one.code) for one in found.refused] == [("/timeseries/1/labels", code)]
        assert (found.refused_count, found.value, remote_write.status(found)) == (2, [1.0, 0.0], 400)

    def test_a_label_given_twice_and_one_that_is_no_text(self) -> None:
        label = b"\x0a\x06\x0a\x01a\x12\x01b"
        twice = b"\x0a\x12" + label * 2 + b"\x12\x00"
        latin = b"\x0a\x0a" + b"\x0a\x06\x0a\x01a\x12\x01\xe9" + b"\x12\x00"
        found = read(squeezed(twice + latin))
        assert [one.code for one in found.refused] == ["label_twice", "label_bad"]

    def test_a_time_that_is_none(self) -> None:
        found = read(write_request((UP, [(1, 0), (2, NOON), (3, -5), (4, 300_000_000_000_000)])))
        assert [(one.pointer, one.code) for one in found.refused] == [
            (f"/timeseries/0/samples/{n}", "bad_time") for n in (0, 2, 3)
        ]
        assert found.value == [2.0]

    def test_refusals_are_counted_beyond_those_that_are_told(self) -> None:
        found = read(write_request(*[({"a": "b"}, [(1, NOON)])] * 500))
        assert (len(found.refused), found.refused_count) == (MOST_REFUSALS, 500)

    def test_bad_references_of_2_0(self) -> None:
        message = MESSAGES["Request"](symbols=["", "__name__", "up"])
        for refs in ([1], [1, 2, 0, 9], [1, 2]):
            message.timeseries.add(refs=refs, samples=[{"value": 7, "timestamp": NOON}])
        found = read(squeezed(message.SerializeToString()), V2)
        assert [(one.pointer, one.code) for one in found.refused] == [
            ("/timeseries/0/labels_refs", "label_bad"),
            ("/timeseries/1/labels_refs", "label_bad"),
        ]
        assert found.value == [7.0]
        message.symbols[0] = "x"
        assert refused(squeezed(message.SerializeToString()), V2).place == "/symbols/0"


class TestValues:
    def test_a_stale_marker_is_no_number_and_other_nans_stay(self) -> None:
        for _ in range(2):  # read in full, then by the remembered label set
            found = read(
                write_request(
                    (UP, [(STALE, NOON)]), (UP, [(math.nan, NOON)]), (UP, [(math.inf, NOON)]), (UP, [(-0.0, NOON)])
                )
            )
            assert found.value[0] is None
            assert math.isnan(found.value[1] or 0)
            assert found.value[2:] == [math.inf, 0.0]
            assert found.stale == 1

    def test_the_same_labels_are_the_same_series_in_any_order_and_protocol(self) -> None:
        found = read(
            write_request((UP, [(1, NOON)]), (dict(reversed(UP.items())), [(1, NOON)]), (UP | {"x": ""}, [(1, NOON)]))
        )
        message = MESSAGES["Request"](symbols=["", "up", "__name__", "gpu001:9100", "instance", "job", "node"])
        message.timeseries.add(refs=[4, 3, 5, 6, 2, 1], samples=[{"value": 1, "timestamp": NOON}])
        newer = read(squeezed(message.SerializeToString()), V2)
        assert len({one.id for one in [*found.series, *newer.series]}) == 1
        assert len(found.distinct()) == 1

    def test_labels_after_a_sample_are_labels_of_both(self) -> None:
        """Nobody sends them so, but they may: what was remembered of the first time must not hide the first sample."""
        message = MESSAGES["TimeSeries"]
        first = message(labels=[{"name": "__name__", "value": "odd"}], samples=[{"value": 1, "timestamp": NOON}])
        second = message(labels=[{"name": "a", "value": "b"}], samples=[{"value": 2, "timestamp": NOON + 1}])
        one = first.SerializeToString() + second.SerializeToString()
        for _ in range(2):
            found = read(squeezed(b"\x0a" + bytes([len(one)]) + one))
            assert (found.value, found.series[0].labels) == ([1.0, 2.0], ("a", "b"))

    def test_label_sets_that_run_together_are_told_apart(self) -> None:
        sets = [["__name__", "up", "a", "bc"], ["__name__", "up", "ab", "c"], ["__name__", "upa", "b", "c"]]
        assert len({make_series(one).id for one in sets}) == 3

    def test_2_0_start_times(self) -> None:
        message = MESSAGES["Request"](symbols=["", "__name__", "c_total"])
        message.timeseries.add(refs=[1, 2], samples=[{"value": 1, "timestamp": NOON, "start": NOON - 9}])
        message.timeseries.add(refs=[1, 2], created=NOON - 7, samples=[{"value": 2, "timestamp": NOON + 1}])
        assert read(squeezed(message.SerializeToString()), V2).start_ms == [NOON - 9, NOON - 7]

    def test_native_histograms_are_counted(self) -> None:
        message = MESSAGES["Write"](timeseries=[{"histograms": [{}, {}], "exemplars": [{}]}, {}])
        found = read(squeezed(message.SerializeToString()))
        assert (len(found), found.ignored.histograms, found.ignored.exemplars, found.ignored.empty) == (0, 2, 1, 1)
        assert remote_write.status(found) == 204


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs", "Cc")), min_size=1, max_size=140)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=4).map(lambda found: {"__name__": "m", **found})
DOUBLES = st.one_of(st.floats(), st.just(STALE), st.just(0.0))
SAMPLES = st.lists(st.tuples(DOUBLES, st.integers(1, 253_402_300_799_999)), max_size=3)


def bits(value: float | None) -> bytes:
    return struct.pack("<d", STALE) if value is None else struct.pack("<d", value)


def rows(found: Samples) -> list[tuple[dict[str, str], int, bytes]]:
    return [(one.named() | {"__name__": one.metric}, t_ms, bits(value))
            for one, t_ms, value in zip(found.series, found.t_ms, found.value, strict=True)]  # fmt: skip


def as_read_by_the_library(message: Any) -> list[tuple[dict[str, str], int, bytes]]:
    return [({one.name: one.value for one in series.labels}, sample.timestamp, struct.pack("<d", sample.value))
            for series in message.timeseries for sample in series.samples]  # fmt: skip


class TestAgainstTheLibrary:
    @settings(max_examples=150)
    @given(st.lists(st.tuples(LABELS, SAMPLES), max_size=5))
    def test_1_0(self, series: list[tuple[dict[str, str], list[tuple[float, int]]]]) -> None:
        raw = write_request(*series, *series)
        expected = [(labels, t_ms, struct.pack("<d", value)) for labels, told in series * 2 for value, t_ms in told]
        assert rows(read(raw)) == expected

    @settings(max_examples=100)
    @given(st.lists(st.tuples(LABELS, SAMPLES), max_size=5))
    def test_2_0(self, series: list[tuple[dict[str, str], list[tuple[float, int]]]]) -> None:
        symbols = ["", *sorted({text for labels, _ in series for pair in labels.items() for text in pair})]
        message = MESSAGES["Request"](symbols=symbols)
        for labels, told in series:
            refs = [symbols.index(text) for pair in labels.items() for text in pair]
            message.timeseries.add(refs=refs, samples=[{"value": value, "timestamp": at} for value, at in told])
        expected = [(labels, t_ms, struct.pack("<d", value)) for labels, told in series for value, t_ms in told]
        assert rows(read(squeezed(message.SerializeToString()), V2)) == expected

    @settings(max_examples=300)
    @given(st.data())
    def test_damaged_bodies_are_refused_or_read_as_the_library_does(self, data: st.DataObject) -> None:
        message = MESSAGES["Write"]()
        for _ in range(2):
            one = message.timeseries.add(labels=[{"name": "__name__", "value": "up"}, {"name": "a", "value": "b"}])
            one.samples.add(value=1.5, timestamp=NOON)
        raw = bytearray(message.SerializeToString())
        read(squeezed(bytes(raw)))  # its label set is remembered
        for _ in range(data.draw(st.integers(1, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        raw = raw[: data.draw(st.integers(0, len(raw)))]
        try:
            found = read(squeezed(bytes(raw)))
        except Unreadable:
            return
        if found.refused_count:
            return
        theirs = MESSAGES["Write"].FromString(bytes(raw))
        told = [
            ({k: v for k, v in labels.items() if v}, at, value) for labels, at, value in as_read_by_the_library(theirs)
        ]
        assert rows(found) == told

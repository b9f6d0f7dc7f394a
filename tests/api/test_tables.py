"""CSV and XLSX: no cell is a formula, numbers stay numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import openpyxl
import pytest

from api.tables import cell, csv_chunks, flat, xlsx_file


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30", "'+49 30"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("a=b", "a=b"),
        ("", ""),
        (None, None),
        (-1, -1),
        (Decimal("-12.34"), Decimal("-12.34")),
        (datetime(2026, 11, 30, 10, tzinfo=UTC), "2026-11-30T10:00:00Z"),
        (["h100=8", "a100=4"], "h100=8 a100=4"),
        (["=x"], "'=x"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_cells(value: object, shown: object) -> None:
    assert cell(value) == shown


def test_csv_quotes_and_counts() -> None:
    text = b"".join(csv_chunks(["a", "b"], [['say "hi", you', -3], ["=x\ny", None]])).decode()
    assert text == 'a,b\r\n"say ""hi"", you",-3\r\n"\'=x\ny",\r\n'
    many = list(csv_chunks(["n"], ([number] for number in range(2500))))
    assert [chunk.count(b"\r\n") for chunk in many] == [1001, 1000, 500]


def test_money_becomes_a_number_and_its_currency() -> None:
    row = flat({"project": "nlp", "cost": {"amount": "-0.10", "currency": "EUR"}})
    assert row == {"project": "nlp", "cost": Decimal("-0.10"), "cost_currency": "EUR"}


def test_xlsx_holds_texts_and_numbers() -> None:
    with xlsx_file("usage", ["name", "gpus"], [["=HYPERLINK(1)", 8], ["bell\x07", None]]) as file:
        sheet = openpyxl.load_workbook(file).active
        assert sheet is not None
        found = [[each.value for each in row] for row in sheet.iter_rows()]
        kinds = [sheet["A2"].data_type, sheet["B2"].data_type]
    assert found == [["name", "gpus"], ["'=HYPERLINK(1)", 8], ["bell ", None]]
    assert kinds == ["s", "n"]

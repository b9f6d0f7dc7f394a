"""Streaming of text files: what is given out, what is refused before anything is given out, memory."""

from __future__ import annotations

import gzip
import io
import os
import threading
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.adapters.textfiles import LINE_LIMIT, TooLong, Unreadable, open_text


def read(path: str | Path, stdin: bytes | None = None) -> list[tuple[int, str | TooLong]]:
    with open_text(path, stdin=None if stdin is None else io.BytesIO(stdin)) as text:
        return list(text.lines())


def put(folder: Path, body: bytes, name: str = "file.psv") -> Path:
    path = folder / name
    path.write_bytes(body)
    return path


@pytest.mark.parametrize(
    "body", [b"a|b\nc|d\n", b"a|b\nc|d", b"a|b\r\nc|d\r\n", b"a|b\rc|d\r", b"\xef\xbb\xbfa|b\nc|d"]
)
@pytest.mark.parametrize("way", ["plain", "gzip", "stdin", "stdin gzip"])
def test_same_lines_in_every_way(tmp_path: Path, body: bytes, way: str) -> None:
    body = gzip.compress(body, mtime=0) if "gzip" in way else body
    made = read("-", body) if "stdin" in way else read(put(tmp_path, body))
    assert made == [(1, "a|b"), (2, "c|d")]


def test_blank_lines_count() -> None:
    assert read("-", b"\n\na\n") == [(1, ""), (2, ""), (3, "a")]


def test_separators_are_no_line_ends() -> None:
    body = "a\x1cb\x1dc\x1ed\x1fe\x0bf\x0cg\x85h\u2028i\n"
    assert read("-", body.encode()) == [(1, body[:-1])]


def test_bad_utf8_is_replaced() -> None:
    assert read("-", b"caf\xe9|x\nna\xc3\xafve\n") == [(1, "caf\ufffd|x"), (2, "naïve")]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\0\ufeff", exclude_categories=["Cs"])), min_size=1))
def test_any_text_comes_back(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    if not body.startswith((b"BZh", b"PK\x03\x04")):
        assert read("-", body) == list(enumerate(lines, 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_refused(body: bytes) -> None:
    try:
        made = read("-", body)
    except Unreadable as error:
        lines = str(error).splitlines()
        assert len(lines) == 1
    else:
        assert [number for number, _ in made] == list(range(1, len(made) + 1))


def test_overlong_lines_are_marked(tmp_path: Path) -> None:
    longest, over, far = "x" * LINE_LIMIT, "y" * (LINE_LIMIT + 1), "z" * (3 * LINE_LIMIT + 7)
    made = read(put(tmp_path, f"a\n{longest}\n{over}\n{far}\nb\n{over}".encode()))
    assert made == [
        (1, "a"),
        (2, longest),
        (3, TooLong("y" * 200, LINE_LIMIT + 1)),
        (4, TooLong("z" * 200, 3 * LINE_LIMIT + 7)),
        (5, "b"),
        (6, TooLong("y" * 200, LINE_LIMIT + 1)),
    ]


@pytest.mark.parametrize("line", [b"x" * 99 + b"\n", b"x"])
def test_memory_is_flat(tmp_path: Path, line: bytes) -> None:
    # 32 MiB as short lines, or as one line without an end.
    path = tmp_path / "big.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(32):
            file.write(line * ((1 << 20) // len(line)))
    tracemalloc.start()
    try:
        with open_text(path) as text:
            for _ in text.lines():
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20, peak


def test_progress(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress(os.urandom(50_000).hex().encode() + b"\n" + b"a\n" * 100_000))
    with open_text(path) as text:
        assert (text.size, text.bytes_read, text.name) == (path.stat().st_size, 0, str(path))
        assert sum(1 for _ in text.lines()) == 100_001
        assert text.bytes_read == text.size
    with open_text("-", stdin=io.BytesIO(b"a\nb\n")) as text:
        assert text.size is None
        assert sum(1 for _ in text.lines()) == 2
        assert text.bytes_read == 4


def test_standard_input_stays_open() -> None:
    stdin = io.BytesIO(b"a\n")
    with open_text("-", stdin=stdin) as text:
        assert list(text.lines()) == [(1, "a")]
    assert not stdin.closed


@pytest.mark.parametrize("zipped", [False, True])
def test_named_pipe(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    body = b"a\nb\n"
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(body, mtime=0) if zipped else body,))
    writer.start()
    try:
        assert read(path) == [(1, "a"), (2, "b")]
    finally:
        writer.join()


GOOD = gzip.compress(Random(1).randbytes(100_000).hex().encode() + b"\nlast\n", mtime=0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"JobID|State\n\0\0", "NUL byte at offset 12"),
        (b"x" * 65_535 + b"\0", "NUL byte"),
        (gzip.compress(b"a\0b", mtime=0), "NUL byte at offset 1"),
        ("JobID".encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04rest", "zip"),
        (b"\xfd7zXZ\x00", "xz"),
        (GOOD[:-1], "cut short"),
        (GOOD[:50_000], "cut short"),
        (GOOD[:5], "cut short"),
        (b"\x1f\x8b", "cut short"),
        (b"\x1f\x8bnonsense that is no gzip", "corrupt"),
        (GOOD[:50_000] + b"\0" * 50 + GOOD[50_050:], "corrupt"),
        (GOOD[:-8] + b"\0\0\0\0" + GOOD[-4:], "corrupt"),
        (GOOD + b"trailing", "corrupt"),
    ],
)
@pytest.mark.parametrize("pipe", [False, True])
def test_unreadable(tmp_path: Path, body: bytes, words: str, pipe: bool) -> None:
    with pytest.raises(Unreadable) as caught:
        open_text("-", stdin=io.BytesIO(body)) if pipe else open_text(put(tmp_path, body))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("standard input:" if pipe else str(tmp_path))


def test_missing_folder_and_permission(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file"):
        open_text(tmp_path / "nothing")
    with pytest.raises(Unreadable, match="is a folder"):
        open_text(tmp_path)
    with pytest.raises(Unreadable, match="cannot be opened"):
        open_text(tmp_path / ("x" * 300))
    with pytest.raises(Unreadable, match="cannot be opened"):
        open_text("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\n")
    path.chmod(0)
    with pytest.raises(Unreadable, match="no permission"):
        open_text(path)


def test_no_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path, b"a\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Unreadable, match="no permission"):
        open_text(path)

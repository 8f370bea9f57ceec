"""The bytes of a file, line by line."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from retrieval.adapters.readers.lines import decoded, read_lines, readable_status
from retrieval.domain.errors import InvalidRequestError


def lines_of(path: Path, **options: int) -> list[bytes]:
    """The lines' bytes."""
    return [line.data for line in read_lines(str(path), **options)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a test's file."""
    return tmp_path / "items.jsonl"


def test_lines_are_numbered_from_one_and_keep_their_ends(file: Path) -> None:
    """Both kinds of line end are kept, and the last line needs none."""
    file.write_bytes(b"a\n\r\nb\r\nc")

    lines = [(line.number, line.data) for line in read_lines(str(file))]

    assert lines == [(1, b"a\n"), (2, b"\r\n"), (3, b"b\r\n"), (4, b"c")]


def test_an_empty_file_has_no_lines(file: Path) -> None:
    """Nothing in, nothing out."""
    file.write_bytes(b"")
    assert lines_of(file) == []


def test_a_file_of_one_byte_is_a_line(file: Path) -> None:
    """The check for gzip's two bytes loses nothing of a shorter file."""
    file.write_bytes(b"a")
    assert lines_of(file) == [b"a"]


def test_a_byte_order_mark_is_left_out(file: Path) -> None:
    """Only the mark at the very start is one."""
    file.write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert lines_of(file) == [b"a\n", b"\xef\xbb\xbfb\n"]


def test_gzip_is_known_by_its_bytes(file: Path) -> None:
    """A packed file is unpacked without ``.gz`` in its name, and all of its parts are."""
    file.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    assert lines_of(file) == [b"a\n", b"b\n"]


def test_a_name_does_not_make_a_file_packed(tmp_path: Path) -> None:
    """A plain file called ``.gz`` is read as it is."""
    plain = tmp_path / "items.jsonl.gz"
    plain.write_bytes(b"a\n")
    assert lines_of(plain) == [b"a\n"]


@pytest.mark.parametrize("packed", [False, True])
def test_offsets_rise_to_the_size_on_disk(file: Path, *, packed: bool) -> None:
    """The offset counts packed bytes, never falls, and ends at the file's size."""
    data = b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(5000))
    file.write_bytes(gzip.compress(data) if packed else data)

    offsets = [line.offset for line in read_lines(str(file))]

    assert offsets == sorted(offsets)
    assert offsets[0] < offsets[-1] == file.stat().st_size


def test_the_offset_of_a_small_file_is_what_was_given(file: Path) -> None:
    """Bytes read ahead do not count: otherwise progress would be 100 % from the first line on."""
    file.write_bytes(b"\xef\xbb\xbfabc\n" + b"x" * 20 + b"\nab")
    assert [line.offset for line in read_lines(str(file), max_line_bytes=10)] == [7, 28, 30]


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(file: Path) -> None:
    """A line may have as many bytes as the limit, including its end; a longer line is truncated."""
    file.write_bytes(b"x" * 1999 + b"\n" + b"y" * 5000 + b"\n" + b"z\n")

    lines = list(read_lines(str(file), max_line_bytes=2000))

    assert [line.too_long for line in lines] == [False, True, False]
    assert [line.number for line in lines] == [1, 2, 3]
    assert lines[1].data == b"y" * 1000
    assert lines[2].data == b"z\n"


def test_a_last_line_that_is_too_long_ends_the_file(file: Path) -> None:
    """A file may end inside a line that is skipped."""
    file.write_bytes(b"a\n" + b"y" * 5000)
    assert [line.too_long for line in read_lines(str(file), max_line_bytes=100)] == [False, True]


def test_a_packed_file_that_was_cut_off_says_so_after_its_lines(file: Path) -> None:
    """Lines before the break are returned; then the error names the file."""
    data = b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(5000))
    file.write_bytes(gzip.compress(data)[:-2000])

    contents: list[bytes] = []
    with pytest.raises(InvalidRequestError, match=r"items\.jsonl: after line \d+, .* ends too early"):
        contents.extend(line.data for line in read_lines(str(file)))

    assert len(contents) > 4000
    assert data.startswith(b"".join(contents))


@pytest.mark.parametrize("place", [200, -6])
def test_a_damaged_packed_file_says_so(file: Path, place: int) -> None:
    """Wrong bytes in the data and a wrong checksum are both found."""
    data = bytearray(gzip.compress(b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(500))))
    data[place] ^= 0xFF
    data[place - 1] ^= 0xFF
    file.write_bytes(bytes(data))

    with pytest.raises(InvalidRequestError, match=r"items\.jsonl: after line \d+, the gzip data"):
        lines_of(file)


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads the process's input to its end, unpacks it, and leaves it open."""
    packed = gzip.compress(b"a\nb\n")
    reading, writing = os.pipe()
    os.write(writing, packed)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe, io.TextIOWrapper(pipe) as text:
        monkeypatch.setattr(sys, "stdin", text)

        lines = list(read_lines("-"))

        assert [line.data for line in lines] == [b"a\n", b"b\n"]
        assert lines[-1].offset == len(packed)
        assert not pipe.closed


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what ``-`` stands for."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidRequestError, match=r"^'-' is standard input, which is closed"):
        list(read_lines("-"))


def test_a_missing_file_is_refused(file: Path) -> None:
    """The error names the file."""
    for attempt in (readable_status, lambda name: list(read_lines(name))):
        with pytest.raises(InvalidRequestError, match=r"items\.jsonl: no such file"):
            attempt(str(file))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """The error says that it is a directory."""
    for attempt in (readable_status, lambda name: list(read_lines(name))):
        with pytest.raises(InvalidRequestError, match="is a directory"):
            attempt(str(tmp_path))


def test_a_file_without_permission_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the user may not read it."""

    # Root may read any file, whatever its mode.
    def refuse(path: Path, _mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    file.write_bytes(b"a\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidRequestError, match="may not be read"):
        readable_status(str(file))


def test_a_name_that_no_file_can_have_is_refused() -> None:
    """A NUL in a name is an error of ours, not of Python's."""
    with pytest.raises(InvalidRequestError, match="cannot be opened"):
        readable_status("a\x00b")


def test_text_comes_with_what_is_wrong_with_its_bytes() -> None:
    """Bytes that are not UTF-8 are shown escaped, with their place; NUL bytes are named."""
    assert decoded("grüß\n".encode()) == ("grüß\n", None)
    text, fault = decoded(b"a\xffb")
    assert text == r"a\xffb"
    assert fault is not None
    assert "byte 2 (0xff) is not UTF-8" in fault
    assert "NUL" in str(decoded(b"a\x00b")[1])

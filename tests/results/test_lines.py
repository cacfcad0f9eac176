"""Checksummed lines: what was appended is there again, and nothing else is taken for it."""

import json
import logging
import os
import resource
from zlib import crc32

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.lines import LineFile, parse, read_lines, seal, unseal

# CRC-32 of IEEE 802.3; 0xcbf43926 is that of the digits 1 to 9 in its published check.
CHECK = (b"123456789", 0xCBF43926)
RECORDS = [{"a": 0.1 + 0.2}, {"b": "é\u2028\n"}, {"c": [5e-324, True, None]}, {"d": 4}]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "er" / "log.jsonl"


def fill(file, *appends):
    lines = LineFile(file)
    for records in appends:
        lines.append(records)
    lines.close()


def each_alone(file):
    fill(file, *([record] for record in RECORDS))
    return file.read_bytes().splitlines(keepends=True)


def test_a_line_ends_with_the_checksum_of_what_stands_before():
    assert crc32(CHECK[0]) == CHECK[1]
    line = seal({"key": "x", "answer": 1}, 2, 3)
    body = b'{"key":"x","answer":1,"part":[2,3]'
    assert line == body + b',"crc32":"%08x"}\n' % crc32(body)
    assert json.loads(line)["answer"] == 1
    assert unseal(line) == {"key": "x", "answer": 1, "part": [2, 3]}


@pytest.mark.parametrize("body", [b'{"a":1', b'{"a":1,"part":[1]', b'{"a":1,"part":1', b"[1", b"x"])
def test_a_checksum_alone_makes_no_line(body):
    assert unseal(body + b',"crc32":"%08x"}\n' % crc32(body)) is None


def test_what_is_appended_is_read_back_bit_for_bit(file):
    fill(file, RECORDS[:3], RECORDS[3:])
    found = read_lines(file)
    assert list(found.records) == RECORDS
    assert (found.damaged, found.lost_bytes, found.torn) == (0, 0, False)
    assert found.records[0]["a"].hex() == (0.1 + 0.2).hex()


def test_no_flipped_bit_is_ever_trusted():
    line = seal({"key": "abc", "answer": [-1.25, True]})
    for place in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[place] ^= 1 << bit
            assert parse(bytes(flipped)).records == ()


def test_a_damaged_line_in_the_middle_is_cut_out_alone_and_told(file, caplog):
    first, second, third, fourth = each_alone(file)
    bad = second.replace(b'"b"', b'"x"')
    file.write_bytes(first + bad + third + fourth)
    with caplog.at_level(logging.WARNING):
        assert list(read_lines(file).records) == [RECORDS[0], *RECORDS[2:]]
    assert f"1 torn or damaged line of {len(bad)} bytes, left out here" in caplog.text
    assert file.read_bytes() == first + bad + third + fourth  # reading leaves it as it is

    with caplog.at_level(logging.WARNING):
        fill(file, [{"e": 5}])
    assert f"{file}: 1 torn or damaged line of {len(bad)} bytes cut out." in caplog.text
    assert file.read_bytes() == first + third + fourth + seal({"e": 5})


@pytest.mark.parametrize("place", [2, 3, 4])
def test_what_was_appended_together_is_lost_together(file, place):
    fill(file, RECORDS[:2], RECORDS[1:], RECORDS[:1])
    content = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*content[:place], b"x" + content[place], *content[place + 1 :]]))
    found = read_lines(file)
    assert list(found.records) == [*RECORDS[:2], RECORDS[0]]
    assert (found.damaged, found.lost_bytes) == (3, sum(map(len, content[2:5])) + 1)
    # A line that is missing altogether can't be seen by its own checksum.
    del content[place]
    file.write_bytes(b"".join(content))
    assert list(read_lines(file).records) == [*RECORDS[:2], RECORDS[0]]


def test_a_line_that_stands_twice_is_no_damage(file):
    lines = each_alone(file)
    file.write_bytes(b"".join([*lines, lines[1]]))
    found = read_lines(file)
    assert list(found.records) == [*RECORDS, RECORDS[1]]
    assert found.damaged == 0


def test_a_lost_end_of_line_costs_the_two_lines_beside_it(file):
    first, second, third, fourth = each_alone(file)
    file.write_bytes(first + second[:-1] + third + fourth)
    found = read_lines(file)
    assert list(found.records) == [RECORDS[0], RECORDS[3]]
    assert (found.damaged, found.lost_bytes) == (1, len(second[:-1] + third))


def test_of_an_append_that_was_torn_nothing_stays(file):
    fill(file, RECORDS[:1], RECORDS[1:])
    content = file.read_bytes()
    first = len(seal(RECORDS[0]))
    for size in range(first, len(content)):
        assert list(parse(content[:size]).records) == RECORDS[:1]
        file.write_bytes(content[:size])
        fill(file)
        assert file.read_bytes() == content[:first]
    assert list(parse(content).records) == RECORDS


def test_only_a_line_without_its_end_is_torn(file):
    lines = each_alone(file)
    whole = b"".join(lines)
    assert parse(whole + lines[0][:9]).torn
    assert not parse(whole).torn
    assert not parse(b"".join(lines[:3]) + b"x" + lines[3]).torn
    assert not parse(b"x" + whole + lines[0][:9]).torn


def test_a_file_that_holds_nothing_to_trust_is_left_alone(file):
    file.parent.mkdir(parents=True)
    old = b'{"key":"a","answer":1}\n{"key":"b","answer":2}\n'
    file.write_bytes(old)
    with pytest.raises(RecordError, match=r"log\.jsonl has no line with a checksum.*move it away"):
        LineFile(file)
    assert file.read_bytes() == old
    file.write_bytes(b"\0" * 4096)  # what a file system may leave of a first append
    fill(file, RECORDS[:1])
    assert list(read_lines(file).records) == RECORDS[:1]


def test_a_disk_that_is_full_in_the_middle_of_an_append_costs_that_append_alone(file):
    lines = LineFile(file)
    lines.append(RECORDS[:2])
    good = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel writes what fits below the limit, and refuses the rest, as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) + 10, hard))
    try:
        for _ in range(2):
            with pytest.raises(OSError, match="only a part"):
                lines.append(RECORDS[2:])
            assert file.read_bytes() == good
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    lines.append(RECORDS[2:])
    lines.close()
    assert list(read_lines(file).records) == RECORDS


def test_what_a_full_disk_leaves_where_nothing_can_be_cut_is_cut_on_opening(file, monkeypatch):
    lines = LineFile(file)
    lines.append(RECORDS[:2])
    good = file.read_bytes()

    class Broken:
        def write(self, data):
            with file.open("ab") as end:
                return end.write(data[:30])

        def truncate(self, size):
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(lines, "_file", Broken())
        with pytest.raises(OSError, match="only a part"):
            lines.append(RECORDS[2:])
    lines.close()
    assert len(file.read_bytes()) == len(good) + 30
    fill(file, RECORDS[2:])
    assert file.read_bytes().startswith(good)
    assert list(read_lines(file).records) == RECORDS


def test_an_append_is_on_disk_before_it_returns(file, monkeypatch):
    sizes = []
    lines = LineFile(file)
    monkeypatch.setattr(os, "fsync", lambda fd: sizes.append(os.fstat(fd).st_size))
    lines.append(RECORDS)
    lines.close()
    assert sizes == [file.stat().st_size]

"""The footer of a Parquet file, beside what PyArrow reads in sound ones."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ladder_eval.parquet_footer import value_count

TABLE = pa.table(
    {
        "number": [1, None, 3],
        "flag": [True, False, None],
        "text": ["a", "b" * 300, None],
        "list": [[1.5, None], [], None],
        "struct": [{"x": "a", "y": [1, 2, 3]}, None, {"x": "b", "y": []}],
    }
)


@pytest.fixture
def file(tmp_path):
    pq.write_table(TABLE, tmp_path / "table.parquet", row_group_size=2)
    return tmp_path / "table.parquet"


def test_values_are_those_that_pyarrow_counts(file):
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    assert value_count(file) == sum(column.num_values for column in columns)
    # Three rows of five columns, one of them two, and one more element of each longer list.
    assert value_count(file) == 3 * 6 + 1 + 2


def test_a_damaged_footer_is_refused_or_counted_but_never_more(file):
    content = file.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    draw, refused = random.Random(0), 0
    for _ in range(2000):
        spoilt = bytearray(content)
        spoilt[draw.randrange(start, len(content))] = draw.randrange(256)
        file.write_bytes(spoilt)
        try:
            assert value_count(file) >= 0
        except ValueError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1PAR1",
        b"PAR1\xff\xff\xff\x7fPAR1",
        # A struct in a struct in a struct, without an end; a list of four billion of them.
        b"PAR1" + b"\x1c" * 100_000 + (100_000).to_bytes(4, "little") + b"PAR1",
        b"PAR1\x49\xfc\xff\xff\xff\xff\x0f\x08\x00\x00\x00PAR1",
    ],
    ids=["nothing", "magic", "no footer", "longer than the file", "deep", "long"],
)
def test_what_is_no_footer_is_refused(tmp_path, content):
    file = tmp_path / "file.parquet"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="footer"):
        value_count(file)

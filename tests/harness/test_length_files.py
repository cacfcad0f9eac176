"""AlpacaEval's files for length control: where they are found, and that nothing depends on them."""

import hashlib
import json

import pytest
from local_index import Hub, Server, ask_hub_at

from ladder_eval.errors import FetchError
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split, load
from ladder_eval.harness.data import length_files as module
from ladder_eval.harness.data.checking import check
from ladder_eval.harness.data.length_files import length_files, length_files_at_hand
from ladder_eval.harness.data.packing import write_pack

NAME = "tatsu-lab/alpaca_eval"
SPLIT = Split(NAME, "alpaca_eval_gpt4_baseline", "eval")
FILES = {"df_gamed.csv": b"index\n0\n", "instruction_difficulty.csv": b"0\n1\n"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub that has the files, beside others."""
    monkeypatch.setattr(Hub, "files", FILES | {"README.md": b"?"}, raising=False)
    monkeypatch.setattr(Hub, "served", [], raising=False)
    monkeypatch.setattr(Hub, "repo", NAME)
    monkeypatch.setattr(Hub, "kind", "datasets")
    monkeypatch.setattr(Hub, "commit", BENCHMARKS[NAME].revision)
    with Server(Hub) as server:
        ask_hub_at(server.url, tmp_path / "home", monkeypatch)
        yield


@pytest.fixture
def data(tmp_path):
    """A folder with one row of AlpacaEval's, and without the files."""
    folder = tmp_path / "data" / "alpaca_eval"
    (folder / SPLIT.config).mkdir(parents=True)
    (folder / SPLIT.config / "eval.jsonl").write_text('{"instruction": "Sing."}\n')
    (folder / "lc_reconstructed").mkdir()
    put(folder / "lc_reconstructed")
    return tmp_path / "data"


def put(folder):
    for name, content in FILES.items():
        (folder / name).write_bytes(content)


def sources(data_dir=None, notify=print):
    return DataSources(data_dir=data_dir, notify=notify)


def test_the_hubs_files_come_at_the_pinned_commit_and_once(hub):
    assert length_files_at_hand(sources()) is None
    found = length_files(sources())
    assert found.source == f"{NAME} at {BENCHMARKS[NAME].revision} from the Hugging Face Hub"
    assert (found.gamed.read_bytes(), found.difficulty.read_bytes()) == tuple(FILES.values())
    assert sorted(Hub.served) == sorted(FILES)
    assert length_files(sources(notify=pytest.fail)) == found


def test_the_users_own_go_first_where_both_are_there(hub, data):
    own = data / "alpaca_eval"
    (own / "df_gamed.csv").write_bytes(b"mine")
    assert length_files_at_hand(sources(data)) is None
    assert length_files(sources(data)).source.endswith("from the Hugging Face Hub")
    put(own)
    found = length_files(sources(data, pytest.fail))
    assert (found.gamed, found.source) == (own / "df_gamed.csv", str(own.resolve()))


def test_why_they_cannot_be_had_is_a_sentence(hub, monkeypatch, data):
    monkeypatch.setattr(Hub, "files", {"df_gamed.csv": b""})
    with pytest.raises(FetchError, match=r"lacks df_gamed.csv or instruction_difficulty.csv; put"):
        length_files(sources(data))


def test_a_pack_has_them_where_they_can_be_had(hub, data, tmp_path):
    loaded = load([SPLIT], sources(data))
    written = json.loads(write_pack(tmp_path / "out", loaded, sources(data)).read_text())
    assert written["length_control"] == {
        "folder": "alpaca_eval",
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
        "source": f"{NAME} at {BENCHMARKS[NAME].revision} from the Hugging Face Hub",
        "licence": "CC BY-NC 4.0",
        "revision": BENCHMARKS[NAME].revision,
    }
    assert length_files_at_hand(sources(tmp_path / "out")).folder == tmp_path / "out/alpaca_eval"


def test_a_pack_without_them_says_so(data, tmp_path):
    said = []
    loaded = load([SPLIT], sources(data))
    manifest = write_pack(tmp_path / "out", loaded, sources(data, said.append))
    assert "length_control" not in json.loads(manifest.read_text())
    assert said[-1].startswith("AlpacaEval's files for length control are left out: The dataset ")


def test_files_of_the_users_are_verified(data, monkeypatch):
    assert [one.split.name for one in check([SPLIT], sources(data))] == ["eval"]
    put(data / "alpaca_eval")
    checked = check([SPLIT], sources(data))[-1]
    assert (checked.split.name, checked.verdict) == ("length control", "differs in content")
    assert (checked.official, checked.rows, checked.place) == (2, 2, str(data))
    known = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(module, "SHA256", known)
    assert check([SPLIT], sources(data))[-1].verdict == "ok"

"""evalplus' release files: the order of their places, what is refused, and what becomes of them."""

import gzip
import hashlib
import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from threading import Event

import evalplus.data.humaneval
import evalplus.data.mbpp
import evalplus.data.utils
import pytest
from code_release import HUMANEVAL, MBPP, RIGHT, lines, write_releases
from local_index import Server, StalledIndex

from ladder_eval.errors import DataError, FetchError
from ladder_eval.fetch import UnreachableError
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split, at_hand, load
from ladder_eval.harness.code.problems import read_problems
from ladder_eval.harness.data import releases
from ladder_eval.harness.data.checking import check
from ladder_eval.harness.data.packing import write_pack
from ladder_eval.harness.data.releases import (
    RELEASES,
    release_at_hand,
    release_file,
    release_rows,
)

SPLIT = Split("evalplus/humanevalplus", "", "test")
MBPP_SPLIT = Split("evalplus/mbppplus", "", "test")
CONTENT = lines(HUMANEVAL)
OTHER = lines(HUMANEVAL[:2])
KEPT = "cache/evalplus/HumanEvalPlus-v0.1.10.jsonl.gz"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(releases, "CACHE_DIR", str(tmp_path / "evalplus_cache"))


def test_a_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    file = tmp_path / "HumanEvalPlus.jsonl.gz"
    file.write_bytes(gzip.compress(b" " * 2**23) * 9)
    with pytest.raises(DataError, match=r"it unpacks to more than 7\d MB"):
        read_problems("humaneval", file)


@pytest.mark.parametrize("prompt", ["half a character: \ud800", 5, None])
def test_a_prompt_that_is_no_text_is_refused(tmp_path, prompt):
    file = tmp_path / "HumanEvalPlus.jsonl"
    row = {"task_id": "HumanEval/0", "prompt": prompt, "entry_point": "f"}
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"HumanEvalPlus\.jsonl can't be read as data"):
        release_rows(file)


class GitHub(BaseHTTPRequestHandler):
    """Sends one file, or fails to."""

    content: bytes
    fault = ""

    def do_GET(self):
        if self.fault == "404":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        cut = len(self.content) // 2 if self.fault == "dropped" else None
        self.wfile.write(self.content[:cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def release(monkeypatch):
    """A tiny release, which the table takes for HumanEval+'s, on a local server."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(GitHub, "content", gzip.compress(CONTENT), raising=False)
    with Server(GitHub) as server:
        tiny = replace(
            RELEASES["humaneval"],
            url=f"{server.url}/HumanEvalPlus.jsonl.gz",
            sha256=hashlib.sha256(CONTENT).hexdigest(),
        )
        benchmark = replace(BENCHMARKS[SPLIT.hub_id], release=tiny, rows={"test": 3})
        monkeypatch.setitem(BENCHMARKS, SPLIT.hub_id, benchmark)
        yield tiny


def sources(data_dir=None, notify=print):
    return DataSources(data_dir=data_dir, notify=notify)


def put(place, content):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(content) if place.suffix == ".gz" else content)
    return place


def left(tmp_path):
    return sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())


def test_releases_are_those_that_the_installed_evalplus_takes():
    versions = {
        "humaneval": evalplus.data.humaneval.HUMANEVAL_PLUS_VERSION,
        "mbpp": evalplus.data.mbpp.MBPP_PLUS_VERSION,
    }
    assert {name: release.version for name, release in RELEASES.items()} == versions
    for name, release in RELEASES.items():
        assert release.name == name
        assert release.url == (
            f"https://github.com/evalplus/{release.title.lower()}_release/releases/download/"
            f"{release.version}/{release.title}.jsonl.gz"
        )
        _, cached = evalplus.data.utils.get_dataset_metadata(release.title, release.version, False)
        assert cached.endswith(f"/{release.title}-{release.version}.jsonl")
        assert len(bytes.fromhex(release.sha256)) == 32


def test_a_release_is_fetched_once(release, tmp_path):
    said = []
    place = release_file(release, sources(notify=said.append))
    assert place == tmp_path / KEPT
    assert gzip.decompress(place.read_bytes()) == CONTENT
    assert said == [f"fetching HumanEvalPlus v0.1.10 from {release.url}"]
    assert release_file(release, sources(notify=pytest.fail)) == place
    assert left(tmp_path) == [KEPT]


def test_places_in_their_order(release, tmp_path):
    """Each is put before those that were, and is taken."""
    data = tmp_path / "data"
    data.mkdir()
    assert release_at_hand(release, sources(data)) is None
    for place in (
        tmp_path / KEPT,
        tmp_path / "evalplus_cache" / "HumanEvalPlus-v0.1.10.jsonl",
        data / "evalplus_native" / "HumanEvalPlus.jsonl.gz",
        data / "evalplus" / "HumanEvalPlus-v0.1.10.jsonl.gz",
        data / "evalplus" / "HumanEvalPlus.jsonl",
        data / "HumanEvalPlus-v0.1.10.jsonl",
    ):
        put(place, CONTENT)
        assert release_at_hand(release, sources(data)) == place
        assert release_file(release, sources(data, pytest.fail)) == place


@pytest.mark.parametrize(
    ("fault", "content", "kind", "words"),
    [
        ("404", CONTENT, FetchError, r"can't be had \(HTTP 404: Not Found\)"),
        ("dropped", CONTENT, UnreachableError, r"can't be fetched \(IncompleteRead"),
        ("", OTHER, FetchError, f"SHA-256 is {hashlib.sha256(OTHER).hexdigest()} instead of"),
        ("", None, FetchError, "SHA-256 is that of a damaged file"),
    ],
)
def test_a_failed_download_is_a_sentence_and_leaves_nothing(
    release, tmp_path, monkeypatch, fault, content, kind, words
):
    whole = gzip.compress(content or CONTENT)
    monkeypatch.setattr(GitHub, "content", whole if content else whole[:-20])
    monkeypatch.setattr(GitHub, "fault", fault)
    with pytest.raises(kind, match=words) as caught:
        release_file(release, sources())
    assert str(caught.value).startswith(release.url)
    assert str(caught.value).endswith("put it into the folder that --data-dir names.")
    assert "\n" not in str(caught.value)
    assert left(tmp_path) == []


def test_a_server_that_does_not_answer_is_given_up(release, monkeypatch):
    monkeypatch.setattr(releases, "_TIMEOUT", 0.2)
    for event in ("asked", "hung_up"):
        monkeypatch.setattr(StalledIndex, event, Event(), raising=False)
    with Server(StalledIndex) as server:
        stalled = replace(release, url=server.url)
        with pytest.raises(UnreachableError, match=r"can't be fetched \(timed out\)"):
            release_file(stalled, sources())
        assert StalledIndex.hung_up.wait(5)


def test_the_proxy_of_the_environment_is_asked(release, monkeypatch):
    monkeypatch.setenv("http_proxy", release.url.rpartition("/")[0])
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    elsewhere = replace(release, url="http://nowhere.invalid/HumanEvalPlus.jsonl.gz")
    assert gzip.decompress(release_file(elsewhere, sources()).read_bytes()) == CONTENT


def test_a_cache_that_cannot_be_written_is_a_sentence(release, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(FetchError, match=r"can't be kept in the cache folder .*LADDER_EVAL_CACHE"):
        release_file(release, sources())


@pytest.mark.parametrize("place", [KEPT, "evalplus_cache/HumanEvalPlus-v0.1.10.jsonl"])
def test_something_else_in_a_cache_is_passed_over(release, tmp_path, place):
    other = put(tmp_path / place, OTHER)
    said = []
    assert release_at_hand(release, sources()) is None
    assert release_file(release, sources(notify=said.append)) == tmp_path / KEPT
    assert said[0].endswith(f" again, since {other} is something else")
    assert gzip.decompress((tmp_path / KEPT).read_bytes()) == CONTENT


def test_rows_have_the_texts_alone_and_the_file_the_tests(release):
    loaded = load([SPLIT], sources())[SPLIT]
    assert list(loaded.rows) == [
        {key: row[key] for key in ("task_id", "prompt", "entry_point")} for row in HUMANEVAL
    ]
    assert loaded.source == "evalplus' release HumanEvalPlus v0.1.10"
    assert list(read_problems("humaneval", loaded.file).by_id) == [r["task_id"] for r in HUMANEVAL]
    assert at_hand([SPLIT, MBPP_SPLIT], sources()).keys() == {SPLIT}


def test_rows_of_a_folder_of_data(tmp_path):
    data = write_releases(tmp_path / "data")
    found = load([SPLIT, MBPP_SPLIT], sources(data, pytest.fail))
    assert found[MBPP_SPLIT].rows["prompt"] == [row["prompt"] for row in MBPP]
    assert found[SPLIT].source == str((data / "evalplus" / "HumanEvalPlus.jsonl.gz").resolve())


def test_made_up_programs_answer_their_problems(tmp_path):
    data = write_releases(tmp_path)
    for name, release in RELEASES.items():
        problems = read_problems(name, release_file(release, sources(data))).by_id
        for task_id, problem in problems.items():
            ours, canonical = {}, {}
            exec(RIGHT[task_id], ours)
            exec(problem.canonical, canonical)
            for arguments in (*problem.inputs["base"], *problem.inputs["plus"]):
                expected = canonical[problem.entry_point](*arguments)
                assert ours[problem.entry_point](*arguments) == expected


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (HUMANEVAL, "ok"),
        (HUMANEVAL[:2], "subset of 3"),
        ([*HUMANEVAL[:2], HUMANEVAL[2] | {"plus_input": []}], "differs in content"),
        ([*HUMANEVAL, HUMANEVAL[0] | {"task_id": "more"}], "differs: more rows than there are"),
    ],
)
def test_a_file_of_the_users_is_taken_and_verified(release, tmp_path, rows, verdict):
    put(tmp_path / "data" / "HumanEvalPlus.jsonl", lines(rows))
    own = sources(tmp_path / "data", pytest.fail)
    (checked,) = check([SPLIT], own)
    assert (checked.verdict, checked.rows) == (verdict, len(rows))
    assert checked.place == str(tmp_path / "data")
    assert len(load([SPLIT], own)[SPLIT].rows) == len(rows)


@pytest.mark.parametrize("content", [b"{", b'{"task_id": "HumanEval/0", "prompt": ""}\n', b"\xff"])
def test_a_damaged_file_of_the_users_is_a_sentence(release, tmp_path, content):
    """Nothing else stands in for what the user gave."""
    place = put(tmp_path / "data" / "HumanEvalPlus.jsonl", content)
    own = sources(tmp_path / "data", pytest.fail)
    with pytest.raises(DataError, match=r"HumanEvalPlus\.jsonl can't be read as data"):
        load([SPLIT], own)
    assert [one.verdict for one in check([SPLIT], own)] == ["differs: can't be read"]
    assert place.exists()


def test_one_message_says_how_each_missing_release_is_got():
    with pytest.raises(DataError) as caught:
        load([SPLIT, MBPP_SPLIT, Split("x/y", "", "test")], sources())
    message = str(caught.value)
    names = "evalplus/humanevalplus test, evalplus/mbppplus test, x/y test"
    assert message.startswith(f"Missing data: {names}. ")
    for release in RELEASES.values():
        assert message.count(f"{release.url} can't be fetched") == 1
    assert "No wheel holds x/y test: it takes the Hub" in message


@pytest.mark.parametrize("place", ["HumanEvalPlus.jsonl", "evalplus_native/HumanEvalPlus.jsonl.gz"])
def test_a_pack_is_a_folder_of_data(release, tmp_path, place, monkeypatch):
    put(tmp_path / "data" / place, CONTENT)
    own = sources(tmp_path / "data")
    loaded = load([SPLIT], own)
    manifest = json.loads(write_pack(tmp_path / "out", loaded, own).read_text())
    packed = tmp_path / "out" / "evalplus" / "HumanEvalPlus.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == CONTENT
    (entry,) = manifest["splits"]
    assert entry == {
        "file": "evalplus/HumanEvalPlus.jsonl.gz",
        "data_set": "evalplus/humanevalplus",
        "configuration": "",
        "split": "test",
        "rows": 3,
        "official_rows": 3,
        "content_sha256": release.sha256,
        "sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        "source": str((tmp_path / "data" / place).resolve()),
        "licence": "Apache-2.0",
        "revision": "v0.1.10",
    }
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "empty"))
    again = load([SPLIT], sources(tmp_path / "out", pytest.fail))
    assert list(again[SPLIT].rows) == list(loaded[SPLIT].rows)
    assert [one.verdict for one in check([SPLIT], sources(tmp_path / "out"))] == ["ok"]

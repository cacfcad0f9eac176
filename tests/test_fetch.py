import errno
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from zipfile import ZipInfo

import pytest
from local_index import COMMIT, Hub, Server, StalledIndex, lie_about_size, pin, publish

from ladder_eval.errors import FetchError
from ladder_eval.fetch import Wheel, cache_folder, fetch_wheel, sha256_file

MEMBERS = ("cargo/data/*",)
CONTENT = {"cargo/data/a.txt": b"first\n", "cargo/data/deep/b.bin": bytes(range(256)) * 400}
BY_HAND = "or name local folders with --model-dir and --data-dir."


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


@pytest.fixture
def wheel(index: Path) -> Wheel:
    return publish(index, [*CONTENT.items(), ("cargo/__init__.py", b"")], members=MEMBERS)


def forbid_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        pytest.fail("pip was called")

    monkeypatch.setattr(subprocess, "run", run)


def unpacked(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    del content[".manifest.json"]
    return content


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def message_of(wheel: Wheel) -> str:
    with pytest.raises(FetchError) as caught:
        fetch_wheel(wheel)
    return str(caught.value)


class TestCacheFolder:
    def test_own_variable_wins(self, cache: Path) -> None:
        assert cache_folder() == cache

    def test_falls_back_to_the_desktop_convention_and_then_to_home(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LADDER_EVAL_CACHE")
        monkeypatch.setenv("HOME", "/home/ada")
        monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
        assert cache_folder() == Path("/var/xdg/ladder-eval")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path("/home/ada/.cache/ladder-eval")


def test_sha256_file_is_the_digest_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_file(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


class TestFetching:
    def test_first_fetch_unpacks_the_wanted_members_alone(self, wheel: Wheel, cache: Path) -> None:
        told: list[str] = []
        folder = fetch_wheel(wheel, notify=told.append)
        assert folder == cache / "wheels" / "cargo-1.0"
        assert unpacked(folder) == CONTENT
        assert told == ["fetching cargo 1.0 (0 MB) from the package index"]
        assert names(cache / "wheels") == [".cargo-1.0.lock", "cargo-1.0"]

    def test_manifest_records_size_and_hash(self, wheel: Wheel) -> None:
        manifest = json.loads((fetch_wheel(wheel) / ".manifest.json").read_text())
        assert manifest["sha256"] == wheel.sha256
        assert manifest["members"] == ["cargo/data/*"]
        assert manifest["files"] == {
            name: [len(content), hashlib.sha256(content).hexdigest()]
            for name, content in CONTENT.items()
        }

    def test_second_fetch_needs_neither_pip_nor_words(
        self, wheel: Wheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = fetch_wheel(wheel)
        forbid_pip(monkeypatch)
        told: list[str] = []
        assert fetch_wheel(wheel, notify=told.append) == folder
        assert told == []

    @pytest.mark.parametrize(
        "harm",
        [
            lambda folder: (folder / "cargo/data/a.txt").write_bytes(b"First\n"),
            lambda folder: (folder / "cargo/data/deep/b.bin").unlink(),
            lambda folder: (folder / ".manifest.json").write_text("[]"),
            lambda folder: (folder / ".manifest.json").write_text("{"),
            lambda folder: shutil.rmtree(folder / "cargo"),
        ],
        ids=["altered", "deleted", "odd manifest", "cut manifest", "emptied"],
    )
    def test_damage_is_repaired(self, wheel: Wheel, cache: Path, harm: object) -> None:
        harm(fetch_wheel(wheel))
        told: list[str] = []
        assert unpacked(fetch_wheel(wheel, notify=told.append)) == CONTENT
        assert told[0] == (
            f"cargo 1.0 in {cache / 'wheels'} is incomplete or damaged, fetching it again"
        )
        assert names(cache / "wheels") == [".cargo-1.0.lock", "cargo-1.0"]

    def test_other_wanted_members_are_fetched(self, wheel: Wheel) -> None:
        fetch_wheel(wheel)
        more = replace(wheel, members=("cargo/*",))
        assert unpacked(fetch_wheel(more)) == CONTENT | {"cargo/__init__.py": b""}

    def test_leftovers_of_a_killed_attempt_are_cleaned(self, wheel: Wheel, cache: Path) -> None:
        leftover = cache / "wheels" / ".cargo-1.0.partial" / "download"
        leftover.mkdir(parents=True)
        (leftover / "cargo-1.0-py3-none-any.whl").write_bytes(b"half of it")
        assert unpacked(fetch_wheel(wheel)) == CONTENT
        assert names(cache / "wheels") == [".cargo-1.0.lock", "cargo-1.0"]

    def test_two_at_once_download_once(self, wheel: Wheel) -> None:
        told: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(fetch_wheel, wheel, notify=told.append) for _ in range(2)]
            assert [unpacked(job.result()) for job in jobs] == [CONTENT, CONTENT]
        assert told == ["fetching cargo 1.0 (0 MB) from the package index"]

    def test_interrupt_ends_pip_and_leaves_a_clean_cache(self, index: Path, cache: Path) -> None:
        StalledIndex.asked, StalledIndex.hung_up = Event(), Event()
        code = (
            "from ladder_eval.fetch import Wheel, fetch_wheel; fetch_wheel(Wheel("
            "project='cargo', version='1.0', sha256=64 * '0', size_bytes=1, members=('*',)))"
        )
        with Server(StalledIndex) as server:
            environment = os.environ | {"PIP_INDEX_URL": server.url, "NO_PROXY": "127.0.0.1"}
            del environment["PIP_NO_INDEX"]
            with subprocess.Popen(
                [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
            ) as child:
                assert StalledIndex.asked.wait(60)
                child.send_signal(signal.SIGINT)  # to the parent alone, not to its process group
                assert child.communicate()[1].endswith("\nKeyboardInterrupt\n")
            assert child.returncode == -signal.SIGINT
            assert StalledIndex.hung_up.wait(60)
        assert names(cache / "wheels") == [".cargo-1.0.lock"]


class TestRefusals:
    def test_wrong_hash_names_both(self, wheel: Wheel, cache: Path) -> None:
        told: list[str] = []
        wrong = replace(wheel, sha256=64 * "0")
        with pytest.raises(FetchError) as caught:
            fetch_wheel(wrong, notify=told.append)
        assert str(caught.value) == (
            "The package index sent another cargo 1.0 than the pinned one: expected sha256 "
            f"{64 * '0'}, found {wheel.sha256}; point pip at another index, {BY_HAND}"
        )
        assert told[1:] == [
            "the package index is slow or sent an altered cargo 1.0, trying once more"
        ]
        assert names(cache / "wheels") == [".cargo-1.0.lock"]

    def test_a_failed_repair_keeps_what_was_there(self, wheel: Wheel) -> None:
        folder = fetch_wheel(wheel)
        message_of(replace(wheel, sha256=64 * "0"))
        assert unpacked(folder) == CONTENT

    @pytest.mark.parametrize(
        "name", ["../evil", "/evil", "cargo/../../evil", "c:evil", "cargo\\evil"]
    )
    def test_unsafe_names(self, index: Path, cache: Path, name: str) -> None:
        wheel = publish(index, [*CONTENT.items(), (name, b"x")], members=MEMBERS)
        assert message_of(wheel) == f"cargo 1.0 holds the unsafe member {name!r}; don't use it."
        assert names(cache / "wheels") == [".cargo-1.0.lock"]
        assert [path for path in cache.parent.rglob("*") if "evil" in path.name] == []

    def test_symlink(self, index: Path) -> None:
        link = ZipInfo("cargo/data/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        wheel = publish(index, [(link, b"/etc/passwd")], members=MEMBERS)
        assert message_of(wheel) == (
            "cargo 1.0 holds the unsafe member 'cargo/data/link'; don't use it."
        )

    @pytest.mark.parametrize(
        ("size", "reason"),
        [
            (3, "is no sound wheel (Bad CRC-32 for file 'cargo/data/a.txt'); don't use it."),
            (9, "is no sound wheel (cargo/data/a.txt has not its declared size); don't use it."),
            (2**31 + 1, "would unpack to more than 2 GiB; don't use it."),
        ],
    )
    def test_lying_size(self, wheel: Wheel, index: Path, size: int, reason: str) -> None:
        (path,) = index.iterdir()
        lie_about_size(path, "cargo/data/a.txt", size)
        assert message_of(pin(path, MEMBERS)) == f"cargo 1.0 {reason}"

    def test_pattern_that_matches_nothing(self, wheel: Wheel) -> None:
        assert message_of(replace(wheel, members=(*MEMBERS, "cargo/*.csv"))) == (
            "cargo 1.0 holds no file that matches cargo/*.csv; correct the pattern."
        )

    def test_not_on_the_index(self, wheel: Wheel, index: Path) -> None:
        (path,) = index.iterdir()
        path.unlink()
        assert message_of(wheel) == (
            "cargo 1.0 can't be fetched from the package index (pip: No matching distribution "
            "found for cargo==1.0); connect to the network, set an index with "
            f"`pip config set global.index-url URL`, {BY_HAND}"
        )

    def test_index_that_does_not_answer(
        self, wheel: Wheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Server(StalledIndex) as server:
            closed = server.url
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", closed)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert (
            "(pip: No matching distribution found for cargo==1.0, after a broken connection); "
            "connect to the network"
        ) in message_of(wheel)

    def test_no_pip(self, wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert message_of(wheel) == (
            "This Python has no pip, which fetches cargo 1.0; run `python -m ensurepip` (in an "
            f"environment made by uv: `uv pip install pip`), {BY_HAND}"
        )

    def test_cache_that_can_not_be_written(self, wheel: Wheel, cache: Path) -> None:
        cache.write_text("a file where the folder should be")
        assert message_of(wheel) == (
            f"cargo 1.0 can't be kept in the cache folder {cache} (Not a directory); make room "
            "there, or set LADDER_EVAL_CACHE to a folder that can be written."
        )


class TestPipOutput:
    """What the module makes of pip's words in situations that are hard to bring about."""

    @staticmethod
    def script(monkeypatch: pytest.MonkeyPatch, *outputs: str) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            calls.append(command)
            return subprocess.CompletedProcess(command, 1, outputs[len(calls) - 1])

        monkeypatch.setattr(subprocess, "run", run)
        return calls

    def test_slow_index_gets_a_patient_second_attempt(
        self, wheel: Wheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = self.script(monkeypatch, "WARNING: Read timed out.", "ERROR: Nothing.\n")
        assert "(pip: Nothing)" in message_of(wheel)
        assert [("--timeout=6" in call, "--timeout=30" in call) for call in calls] == [
            (True, False),
            (False, True),
        ]
        assert ["--no-cache-dir" in call for call in calls] == [False, True]

    def test_last_error_counts_and_silence_is_named(
        self, wheel: Wheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.script(monkeypatch, "ERROR: one\nERROR: two\nmore\n", "")
        assert "(pip: two)" in message_of(wheel)
        self.script(monkeypatch, "\n")
        assert "(pip: no message)" in message_of(wheel)

    def test_full_disk(self, wheel: Wheel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script(monkeypatch, "ERROR: [Errno 28] No space left on device\n")
        assert message_of(wheel) == (
            f"cargo 1.0 can't be kept in the cache folder {cache} ({os.strerror(errno.ENOSPC)}); "
            "make room there, or set LADDER_EVAL_CACHE to a folder that can be written."
        )


ASK = """
import json, sys
from ladder_eval import fetch
from ladder_eval.errors import FetchError
fetch._HUB_TIMEOUT = float(sys.argv[2])
asked = {"revision": None, "repo_type": "model", "patterns": ["*.json"]}
for case in json.loads(sys.argv[1]):
    try:
        print(fetch.fetch_hub(**asked | case))
    except FetchError as error:
        print(error)
"""


class TestHub:
    @pytest.fixture(autouse=True)
    def content(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = {"config.json": b'{"model_type": "llama"}', "deep/more.json": b"{}", "README": b"!"}
        monkeypatch.setattr(Hub, "files", files, raising=False)
        monkeypatch.setattr(Hub, "served", [], raising=False)

    @staticmethod
    def ask(url: str, home: Path, *cases: dict[str, object], timeout: float = 10.0) -> list[str]:
        """Asks in a new process, since the Hub's library reads its address when imported."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        child = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps(cases), str(timeout)],
            env=kept | {"HF_ENDPOINT": url, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1"},
            check=True,
            capture_output=True,
            text=True,
        )
        return child.stdout.splitlines()

    def test_matching_files_arrive_once(self, tmp_path: Path) -> None:
        with Server(Hub) as hub:
            (first,) = self.ask(hub.url, tmp_path, {"repo_id": "org/tiny"})
            (second,) = self.ask(hub.url, tmp_path, {"repo_id": "org/tiny"})
        assert first == second == str(tmp_path / f"hub/models--org--tiny/snapshots/{COMMIT}")
        assert (Path(first) / "config.json").read_bytes() == b'{"model_type": "llama"}'
        assert (Path(first) / "deep/more.json").read_bytes() == b"{}"
        assert sorted(Hub.served) == ["config.json", "deep/more.json"]

    def test_refusals_are_sentences(self, tmp_path: Path) -> None:
        with Server(Hub) as hub:
            said = self.ask(
                hub.url,
                tmp_path,
                {"repo_id": "org/absent"},
                {"repo_id": "org/gated", "repo_type": "dataset"},
                {"repo_id": "org/tiny", "revision": "v9"},
                {"repo_id": "a/b/c"},
                {"repo_id": "org/tiny", "patterns": ["*.gguf", "*.bin"]},
            )
        assert said == [
            "The Hugging Face Hub shows no model org/absent; correct the name, or log in with "
            "`hf auth login` if it is private.",
            "The dataset org/gated is gated; accept its terms on the Hugging Face Hub and log in "
            "with `hf auth login`.",
            "The model org/tiny has no revision v9; name another one.",
            "'a/b/c' can't be the name of a model; write it as owner/name.",
            "The model org/tiny has no file named *.gguf or *.bin.",
        ]

    def test_unreachable(self, tmp_path: Path) -> None:
        with Server(Hub) as hub:
            closed = hub.url
        (said,) = self.ask(closed, tmp_path, {"repo_id": "org/tiny"})
        assert said == (
            "The model org/tiny can't be fetched from the Hugging Face Hub (ConnectError: [Errno "
            f"{errno.ECONNREFUSED}] Connection refused); connect to the network, set HF_ENDPOINT "
            f"to a mirror, {BY_HAND}"
        )

    def test_stalled_hub_is_given_up(self, tmp_path: Path) -> None:
        StalledIndex.asked, StalledIndex.hung_up = Event(), Event()
        with Server(StalledIndex) as hub:
            (said,) = self.ask(hub.url, tmp_path, {"repo_id": "org/tiny"}, timeout=0.1)
        assert said.startswith(
            "The model org/tiny can't be fetched from the Hugging Face Hub (ReadTimeout: timed out)"
        )

    def test_cached_copy_serves_where_the_hub_is_unreachable(self, tmp_path: Path) -> None:
        with Server(Hub) as hub:
            online = self.ask(hub.url, tmp_path, {"repo_id": "org/tiny"})
        assert self.ask(hub.url, tmp_path, {"repo_id": "org/tiny"}) == online
        assert online == [str(tmp_path / f"hub/models--org--tiny/snapshots/{COMMIT}")]

    def test_cache_that_can_not_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("a file where the folder should be")
        with Server(Hub) as hub:
            (said,) = self.ask(hub.url, tmp_path / "home", {"repo_id": "org/tiny"})
        assert said == (
            "The model org/tiny can't be kept in the Hub's cache (Not a directory); make room "
            "there, or set HF_HOME to a folder that can be written."
        )

    def test_broken_download_is_completed_by_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: dict[str, object] = {"repo_id": "org/tiny", "patterns": ["config.json"]}
        monkeypatch.setattr(Hub, "broken", True)
        with Server(Hub) as hub:
            (said,) = self.ask(hub.url, tmp_path, asked)
            assert said.startswith(
                "The model org/tiny can't be fetched from the Hugging Face Hub (HTTPStatusError: "
                "Server error '503 Service Unavailable'"
            )
            monkeypatch.setattr(Hub, "broken", False)
            (folder,) = self.ask(hub.url, tmp_path, asked)
        assert (Path(folder) / "config.json").read_bytes() == b'{"model_type": "llama"}'
        assert Hub.served == ["config.json", "config.json"]

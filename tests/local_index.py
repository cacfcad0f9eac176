"""A package index and a Hugging Face Hub that live in a folder and on a local port."""

import hashlib
import json
import struct
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self
from zipfile import ZipFile, ZipInfo

import pytest
from huggingface_hub import constants

from ladder_eval.fetch import Wheel

COMMIT = "c0ffee" + 34 * "0"


def publish(
    index: Path, entries: Iterable[tuple[str | ZipInfo, bytes]], *, members: tuple[str, ...]
) -> Wheel:
    """Puts a wheel of the project ``cargo``, version 1.0, into a folder that pip can search."""
    path = index / "cargo-1.0-py3-none-any.whl"
    about = {
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "METADATA": "Metadata-Version: 2.1\nName: cargo\nVersion: 1.0\n",
        "RECORD": "",
    }
    with ZipFile(path, "w") as wheel:
        for entry, content in entries:
            wheel.writestr(entry, content)
        for name, text in about.items():
            wheel.writestr(f"cargo-1.0.dist-info/{name}", text)
    return pin(path, members)


def pin(path: Path, members: tuple[str, ...]) -> Wheel:
    """Describes a wheel file as it is now."""
    content = path.read_bytes()
    return Wheel(
        project="cargo",
        version="1.0",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        members=members,
    )


def lie_about_size(path: Path, name: str, size: int) -> None:
    """Overwrites the unpacked size that an archive's central directory gives for a member."""
    content = bytearray(path.read_bytes())
    header = content.rindex(name.encode()) - 46
    assert content[header : header + 4] == b"PK\x01\x02"
    struct.pack_into("<L", content, header + 24, size)
    path.write_bytes(content)


class Server:
    """Runs a request handler on a free local port while its ``with`` block lasts."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class StalledIndex(BaseHTTPRequestHandler):
    """A package index that takes a request and never answers it."""

    asked: Event
    hung_up: Event

    def do_GET(self) -> None:
        self.asked.set()
        self.rfile.read()  # returns when the other side goes away
        self.hung_up.set()

    def log_message(self, *_: object) -> None:
        pass


def ask_hub_at(url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points the Hub's library, which read its address when it was imported, somewhere else."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))


class Hub(BaseHTTPRequestHandler):
    """The part of the Hub's interface that a snapshot download uses, for one repository."""

    files: dict[str, bytes]
    served: list[str]
    broken = False
    repo = "org/tiny"
    kind = "models"
    commit = COMMIT

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        base = f"/api/{self.kind}/{self.repo}"
        folder = "" if self.kind == "models" else f"/{self.kind}"
        name = path.removeprefix(f"{folder}/{self.repo}/resolve/{self.commit}/")
        about = [f"{base}/revision/{name}" for name in ("main", "v1", self.commit)]
        if path in (base, *about):
            self._send(json.dumps({"id": self.repo, "sha": self.commit}).encode())
        elif path == f"{base}/tree/{self.commit}":
            self._send(json.dumps([self._row(name) for name in self.files]).encode())
        elif name in self.files:
            self._send_file(name, body=body)
        else:
            self._refuse(path)

    def _row(self, name: str) -> dict[str, object]:
        return {"type": "file", "path": name, "size": len(self.files[name]), "oid": f"oid-{name}"}

    def _refuse(self, path: str) -> None:
        if "org/gated" in path:
            self._send(b"", status=403, headers={"X-Error-Code": "GatedRepo"})
        else:
            code = "RevisionNotFound" if self.repo in path else "RepoNotFound"
            self._send(b"", status=404, headers={"X-Error-Code": code})

    def _send_file(self, name: str, *, body: bool) -> None:
        content = self.files[name]
        headers = {"ETag": f'"oid-{name}"', "X-Repo-Commit": self.commit}
        if not body:
            self._send(b"", headers=headers | {"Content-Length": str(len(content))})
        elif not self.broken:
            self.served.append(name)
            self._send(content, headers=headers)
        elif name in self.served:
            self._send(b"", status=503)
        else:
            self.served.append(name)
            headers["Content-Length"] = str(len(content))
            self._send(content[: len(content) // 2], headers=headers)

    def _send(
        self, content: bytes, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

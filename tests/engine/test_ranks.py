"""Real processes on Gloo: one answer at any tp_size."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch.nn.functional import log_softmax
from transformers import LlamaConfig, LlamaForCausalLM

import ladder_eval

HERE = Path(__file__).parent
ROOT = str(Path(ladder_eval.__file__).parents[1])
SIZES = ("1", "2", "4")
SHAPE = {
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "max_position_embeddings": 128,
    "vocab_size": 83,
    "initializer_range": 0.15,
}
EVEN = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
UNEVEN = {
    "hidden_size": 72,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": False,
}
RESIDUALS = {
    "standard": {},
    "ladder": {"ladder_layers": [0, 1, 2, 3]},
    "hybrid": {"ladder_layers": [2, 3]},
    "parallel": {"topology": "parallel"},
}
LOW, HIGH = 20, 70  # rows of the head that are equal, always on different ranks
CONTEXTS = [[i, 3 * i % 83, 7] for i in range(12)]


def save(folder, shape):
    torch.manual_seed(5)
    LlamaForCausalLM(LlamaConfig(**SHAPE, **shape)).save_pretrained(folder)
    return folder


def some_requests():
    draw = random.Random(2)
    contexts = [draw.choices(range(83), k=size) for size in (1, 2, 5, 40, 90, 17, 17)]
    return [(c, draw.choices(range(83), k=n)) for c in contexts for n in (1, 3, 8)]


def tied_head(folder):
    """Every token's logit is zero but for two tokens', which are equal: ties everywhere."""
    tensors = load_file(save(folder, UNEVEN) / "model.safetensors")
    tensors["lm_head.weight"] = torch.zeros(83, 72)
    tensors["lm_head.weight"][[LOW, HIGH], 3] = 2.0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def broken(folder, token):
    """A model that gives NaN for texts with one token alone."""
    tensors = load_file(save(folder, UNEVEN) / "model.safetensors")
    tensors["model.embed_tokens.weight"][token] = torch.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def make_jobs(folder):
    requests = some_requests()
    folders = {"even": save(folder / "even", EVEN), "uneven": save(folder / "uneven", UNEVEN)}
    jobs = {
        f"{shape} {residual}": {"folder": str(place), "requests": requests} | changes
        for shape, place in folders.items()
        for residual, changes in RESIDUALS.items()
    }
    uneven = {"folder": str(folders["uneven"]), "requests": requests}
    jobs["desync-2x"] = uneven | {"topology": "desync-2x"}
    jobs["bfloat16"] = uneven | {"dtype": "bfloat16"}
    jobs["misshapen"] = uneven | {"changes": {"intermediate_size": 192}}
    ends = [(context, [end]) for context in CONTEXTS for end in (0, LOW, HIGH)]
    jobs["ties"] = {"folder": str(tied_head(folder / "ties")), "requests": ends}
    for token in (42, 10):  # 42 is the first of rank 1 of 2, and of rank 2 of 4
        # Longest first: the second is the first that reads the token.
        asked = [([1, 2, 3, 4, 5, 6], [7]), ([1, 2, token, 4, 5], [6]), ([1, 2, 3], [4])]
        nan = {"folder": str(broken(folder / f"nan{token}", token)), "requests": asked}
        jobs[f"nan {token}"] = nan
    # After errors the group goes on.
    return jobs | {"again": jobs["even standard"]}


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """What three groups of processes answer; made once, by the first worker of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "group_scores"
    with FileLock(f"{place}.lock"):
        if not (place / "answers.json").exists():
            place.mkdir()
            jobs = make_jobs(place)
            done = subprocess.run(
                [sys.executable, "-W", "error", HERE / "group_scores.py"],
                input=json.dumps([jobs, [int(size) for size in SIZES]]),
                stdout=subprocess.PIPE,
                text=True,
                timeout=120,
                check=True,
                env=os.environ | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"},
            )
            (place / "answers.json").write_text(done.stdout)
    return json.loads((place / "answers.json").read_text()), place


@pytest.mark.parametrize("size", ["2", "4"])
@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("shape", ["even", "uneven"])
def test_any_number_of_ranks_gives_the_answers_of_one(scored, shape, residual, size):
    alone, together = (scored[0][n][f"{shape} {residual}"] for n in ("1", size))
    assert len(alone["logprobs"]) == 21
    assert together["logprobs"] == pytest.approx(alone["logprobs"], abs=1e-4)
    assert together["greedy"] == alone["greedy"]


def test_one_rank_gives_the_answers_of_transformers(scored):
    answers, place = scored
    model = LlamaForCausalLM.from_pretrained(place / "uneven").eval()
    expected = []
    for context, target in some_requests():
        with torch.inference_mode():
            logits = model(torch.tensor([context + target])).logits[0, len(context) - 1 : -1]
        chosen = log_softmax(logits.double(), -1)[range(len(target)), torch.tensor(target)]
        expected.append(chosen.sum().item())
    assert answers["1"]["uneven standard"]["logprobs"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_the_first_of_equal_tokens_is_the_greedy_one(scored, size):
    found = scored[0][size]["ties"]
    triples = [found["greedy"][i : i + 3] for i in range(0, 36, 3)]
    # Of the two equal rows on different ranks the first wins; where they are below zero, token 0.
    assert {tuple(each) for each in triples} == {(True, False, False), (False, True, False)}
    assert found["logprobs"][1::3] == pytest.approx(found["logprobs"][2::3], abs=1e-5)
    assert triples == [scored[0]["1"]["ties"]["greedy"][i : i + 3] for i in range(0, 36, 3)]


def test_desync_depends_on_the_number_of_ranks(scored):
    one, two, four = (scored[0][size]["desync-2x"]["logprobs"] for size in SIZES)
    standard = scored[0]["1"]["uneven standard"]["logprobs"]
    assert one == pytest.approx(standard, abs=1e-4)
    for a, b in ((one, two), (one, four), (two, four)):
        assert max(abs(x - y) for x, y in zip(a, b, strict=True)) > 0.1


@pytest.mark.parametrize("size", SIZES)
def test_bfloat16_is_carried(scored, size):
    found, exact = (scored[0][size][name] for name in ("bfloat16", "uneven standard"))
    assert found["logprobs"] != exact["logprobs"]
    assert found["logprobs"] == pytest.approx(exact["logprobs"], rel=0.05, abs=0.2)
    assert [2 * size for size in found["bytes"]] == exact["bytes"]


@pytest.mark.parametrize("size", ["2", "4"])
def test_weights_add_up_to_the_whole(scored, size):
    for name in ("even standard", "uneven standard"):
        (whole,) = scored[0]["1"][name]["bytes"]
        held = scored[0][size][name]["bytes"]
        assert len(held) == int(size)
        assert whole < sum(held) < 1.2 * whole  # norms are held by all, and some key-value heads
    assert len(scored[0][size]["group"]["peak_memory"]) == int(size)
    assert min(scored[0][size]["group"]["peak_memory"]) > 50e6


def test_the_backend_is_named(scored):
    assert [scored[0][size]["group"]["backend"] for size in SIZES] == ["none", "gloo", "gloo"]


def test_any_number_of_ranks_writes_the_texts_of_one(scored):
    texts = [scored[0][size]["group"]["texts"] for size in SIZES]
    assert [len(text) for text in texts[0]] == [2, 3, 4, 5]
    assert len({tuple(text) for text in texts[0]}) > 1
    assert texts[1:] == texts[:1] * 2


@pytest.mark.parametrize("size", SIZES)
def test_a_checkpoint_that_does_not_fit_is_one_error(scored, size):
    error = scored[0][size]["misshapen"]["error"]
    assert error == scored[0]["1"]["misshapen"]["error"]
    assert "gate_proj.weight is [96, 72] instead of [192, 72]" in error


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("token", [10, 42])
def test_nan_names_the_request_that_reads_it_at_any_tp_size(scored, size, token):
    found = scored[0][size][f"nan {token}"]
    assert found == {"error": "NotFiniteError: the log-likelihood of request 1 is nan"}


@pytest.mark.parametrize("size", SIZES)
def test_after_an_error_the_group_goes_on(scored, size):
    assert scored[0][size]["again"] == scored[0][size]["even standard"]

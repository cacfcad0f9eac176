"""Replicas of tensor-parallel groups, as real processes on Gloo: the answers of one process."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoint import write_checkpoint

import ladder_eval

HERE = Path(__file__).parent
ROOT = Path(ladder_eval.__file__).parents[1]
ALONE, TOGETHER = (1, 1), (2, 2)  # tp_size, replicas
REQUESTS = (2, 60, 9, 9, 31, 4, 17, 28, 5, 12, 45, 6, 22, 3, 8, 14, 11, 19, 7)  # tokens of contexts
BAD_REQUEST = 9  # of twelve tokens: none of the longest ones, which are the first replica's
BAD_TOKEN = 250


def broken(folder):
    """A model that gives NaN for texts with one token alone."""
    write_checkpoint(folder, tie_word_embeddings=False)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.weight"][BAD_TOKEN] = torch.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def job(tiny_checkpoint, tmp_path_factory):
    draw = random.Random(3)
    requests = [
        [draw.choices(range(200), k=size), draw.choices(range(200), k=1 + size % 3)]
        for size in REQUESTS
    ]
    requests[BAD_REQUEST][0][3] = BAD_TOKEN
    return {
        "folder": str(tiny_checkpoint),
        "broken": str(broken(tmp_path_factory.mktemp("models") / "broken")),
        "requests": requests,
        "prompts": [draw.choices(range(200), k=size) for size in (5, 20, 3, 8, 8, 14, 2)],
        "until": ["a", "e", "t"],
    }


@pytest.fixture(scope="module")
def answered(job, tmp_path_factory):
    """What each team answered, and what each of its ranks computed, by the team's shape."""
    seen, teams = tmp_path_factory.mktemp("seen"), (ALONE, TOGETHER)
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "replica_answers.py"],
        input=json.dumps([job, str(seen), teams]),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"},
    )
    return {
        (tp_size, replicas): (answers, computed(seen / f"{tp_size}-{replicas}", tp_size * replicas))
        for (tp_size, replicas), answers in zip(teams, json.loads(done.stdout), strict=True)
    }


def computed(folder, ranks):
    lines = [(folder / str(rank)).read_text().splitlines() for rank in range(ranks)]
    return [[json.loads(line) for line in each] for each in lines]


def test_replicas_give_the_answers_of_one_rank(answered):
    alone, together = answered[ALONE][0], answered[TOGETHER][0]
    assert len(alone["scores"]) == len(REQUESTS)
    logprobs, greedy = zip(*together["scores"], strict=True)
    expected, expected_greedy = zip(*alone["scores"], strict=True)
    assert logprobs == pytest.approx(expected, abs=1e-5)
    assert greedy == expected_greedy
    assert together["texts"] == alone["texts"]  # every second of which is drawn
    assert {ended_by for _, ended_by in alone["texts"]} == {"stop", "length"}


def test_each_request_is_computed_by_one_replica(job, answered):
    firsts = answered[TOGETHER][1][::2]
    for kind, everything in (("score", list(range(len(REQUESTS)))), ("generate", job["prompts"])):
        shares = [list(of_kind(rank, kind)) for rank in firsts]
        assert sorted(each for share in shares for each in share) == sorted(everything)
        assert all(shares), "a replica has done nothing"
    assert BAD_REQUEST in list(of_kind(firsts[1], "broken"))


def of_kind(rank, kind):
    return (each for line, what, *_ in rank if line == kind for each in what)


def test_the_ranks_of_a_replica_mirror_each_other_and_the_first_asks_the_stops(job, answered):
    ranks = answered[TOGETHER][1]
    for first, second in (ranks[:2], ranks[2:]):
        assert [line[:2] for line in first] == [line[:2] for line in second]
    asked = [sum(line[2] for line in rank if line[0] == "generate") for rank in ranks]
    assert asked[0] + asked[2] == len(job["prompts"])
    assert asked[1] == asked[3] == 0


@pytest.mark.parametrize("team", [ALONE, TOGETHER])
def test_nan_in_any_replica_names_its_request(answered, team):
    assert answered[team][0]["broken"] == BAD_REQUEST


def test_every_replica_holds_the_whole_model(answered):
    (whole,) = answered[ALONE][0]["bytes"]
    held = answered[TOGETHER][0]["bytes"]
    assert held[:2] == held[2:]
    assert whole <= sum(held[:2]) < 1.2 * whole

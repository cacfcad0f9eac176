"""The CPU threads that a rank has beside others."""

import os

import pytest
import torch

from ladder_eval.distributed.threads import threads_of_one_in


@pytest.fixture(autouse=True)
def twelve_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(12))


def threads(ranks, device="cpu"):
    with threads_of_one_in(ranks, torch.device(device)):
        return torch.get_num_threads()


@pytest.mark.parametrize(("ranks", "expected"), [(1, 12), (2, 6), (5, 2), (12, 1), (16, 1)])
def test_ranks_share_the_cores_and_each_has_one(ranks, expected):
    before = torch.get_num_threads()
    assert threads(ranks) == expected
    assert torch.get_num_threads() == before


def test_what_the_user_has_set_and_what_a_gpu_has_stays(monkeypatch):
    before = torch.get_num_threads()
    assert threads(3, "cuda") == before
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads(3) == before

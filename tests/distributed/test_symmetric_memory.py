"""Sums by kernels on symmetric memory, where there are GPUs for them."""

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ladder_eval.bench import bench
from ladder_eval.bench_options import BenchOptions
from ladder_eval.distributed.symmetric_memory import SymmetricParallel, why_unavailable
from ladder_eval.errors import UsageError


def test_cpus_have_none(tmp_path):
    assert why_unavailable(torch.device("cpu")) == "kernels on symmetric memory need GPUs"
    options = BenchOptions(
        link="real", all_reduce=("two-shot",), device="cpu", output_dir=tmp_path / "runs"
    )
    with pytest.raises(UsageError, match="No one-shot or two-shot here: kernels on symmetric memo"):
        bench(options, None)
    assert not (tmp_path / "runs").exists()


def sums(rank, port, algorithm):
    torch.cuda.set_device(rank)
    store = dist.TCPStore("127.0.0.1", port, 2, rank == 0)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=2)
    device = torch.device("cuda", rank)
    like = torch.zeros(1, dtype=torch.bfloat16, device=device)
    group = SymmetricParallel(dist.group.WORLD, algorithm, 4096, like)
    sent = [torch.full((3, n), rank + n, dtype=torch.bfloat16, device=device) for n in (1, 5, 64)]
    pending = [group.all_reduce_async(each) for each in sent]  # three on their way, as a ladder has
    for n, each in zip((1, 5, 64), pending, strict=True):
        assert each.wait().tolist() == [[2 * n + 1] * n] * 3
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("algorithm", ["one-shot", "two-shot"])
def test_sums_are_those_of_all_ranks(algorithm):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(sums, args=(port, algorithm), nprocs=2)

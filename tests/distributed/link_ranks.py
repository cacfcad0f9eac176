"""Groups of processes on virtual links: SIZE SIZE ...; what each rank finds, as JSON.

The ranks are forked, so that torch is imported once; they share nothing but the link's memory.
"""

import json
import sys
from multiprocessing import get_context
from time import perf_counter

import torch

from ladder_eval.distributed.virtual_link import LinkMemory, VirtualLink
from ladder_eval.distributed.wire import Wire

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LATENCY, BANDWIDTH, BYTES = 0.02, 1e6, 4000  # a transfer takes 4 ms
MODES = ("serial", "pipelined")
MANY = 24


def counting(rank, dtype):
    """[[0, 2, 4], [1, 3, 5]], once on rank 0, twice on rank 1, ...; not contiguous."""
    return torch.arange(6).to(dtype).view(3, 2).t() * (rank + 1)


def rough(rank, dtype):
    """Numbers whose sum depends on its order, and on the dtype that it is taken in."""
    draw = torch.Generator().manual_seed(rank)
    return (1000 * torch.randn(5, 33, generator=draw)).to(dtype)


def absorbed(rank, dtype):
    """256 on rank 0 and 1 on the others: bfloat16 has no 257, and rounds it to the even 256."""
    return torch.tensor([1.0 if rank else 256.0]).to(dtype)


def bits(tensor):
    kind = torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32
    return tensor.view(kind).flatten().tolist()


def numbers(link):
    def each(dtype):
        total = link.all_reduce(rough(link.rank, dtype))
        return {
            "counting": link.all_reduce(counting(link.rank, dtype)).tolist(),
            "absorbed": link.all_reduce(absorbed(link.rank, dtype)).tolist(),
            "rough": bits(total),
            "gathered": link.all_gather(counting(link.rank, dtype)[:, 1]).tolist(),
            "dtype": str(total.dtype),
        }

    return {name: each(dtype) for name, dtype in DTYPES.items()}


def send(link, number):
    """The message of a number: it once on rank 0, ten times on rank 1, a hundred on rank 2."""
    return link.all_reduce_async(torch.full((3,), float(number * 10**link.rank)))


def value(pending):
    (number,) = set(pending.wait().tolist())
    return number


def compute():
    """Take a few milliseconds, in which the other ranks go on."""
    for _ in range(20):
        torch.randn(200, 200) @ torch.randn(200, 200)


def bursts(link):
    """The last rank computes with four messages unread; the others would send the next four."""
    found = []
    for start in range(0, MANY, 4):
        pending = [send(link, number) for number in range(start, start + 4)]
        if link.rank == link.size - 1:
            compute()
        found += [value(each) for each in pending]
    return found


def ladder(link):
    """Each message is awaited after the next has been sent; the first rank computes between."""
    found, before = [], send(link, 0)
    for number in range(1, MANY):
        after = send(link, number)
        if link.rank == 0 and number % 4 == 0:
            compute()
        found.append(value(before))
        before = after
    return [*found, value(before)]


def in_any_order(link):
    def awaited(order):
        pending = [send(link, number) for number in range(1, 5)]
        found = {number: value(pending[number - 1]) for number in order}
        return [found[number] for number in range(1, 5)]

    return [awaited(order) for order in ([1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2], [2, 4, 1, 3])]


def awaited_twice(link):
    pending = send(link, 1)
    return [value(pending), value(pending)]


def gathered_between(link):
    """A gather while sums are on their way, and a sum of another size."""
    first, second = send(link, 1), send(link, 2)
    gathered = link.all_gather(torch.tensor([link.rank, 7]))
    other = link.all_reduce(torch.ones(2, 2))
    return [value(first), value(second), gathered.tolist(), other.tolist()]


def too_many(link):
    pending = [send(link, number) for number in range(4)]
    try:
        send(link, 4)
    except RuntimeError as error:
        message = str(error)
    return [message, [value(each) for each in pending], value(send(link, 5))]


def timed(link, mode):
    """Three messages at once: moments before each is sent, and after each is received."""
    link.use(Wire(latency=LATENCY, bandwidth=BANDWIDTH, mode=mode))
    link.all_reduce(torch.zeros(1))  # all ranks are here
    sent, pending = [], []
    for _ in range(3):
        tensor = torch.zeros(BYTES, dtype=torch.uint8)
        sent.append(perf_counter())
        pending.append(link.all_reduce_async(tensor))
    received = []
    for each in pending:
        each.wait()
        received.append(perf_counter())
    return {"sent": sent, "received": received}


SCENARIOS = (bursts, ladder, in_any_order, awaited_twice, gathered_between, too_many, numbers)


def rank_main(rank, size, path, capacity, answers):
    link = VirtualLink(rank, size, path, capacity)
    found = {scenario.__name__: scenario(link) for scenario in SCENARIOS}
    found["timed"] = {mode: timed(link, mode) for mode in MODES}
    answers.send(found)


def group(size):
    memory, fork = LinkMemory(size, 4096), get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(size)]
    for rank, (_, answers) in enumerate(pipes):
        arguments = (rank, size, memory.path, memory.capacity, answers)
        # A daemon ends with this process, also while it waits for a rank that has failed.
        fork.Process(target=rank_main, args=arguments, daemon=True).start()
    for rank, (found, _) in enumerate(pipes):
        if not found.poll(30):
            raise TimeoutError(f"rank {rank} of {size} has not answered")
    memory.close()
    return [found.recv() for found, _ in pipes]


if __name__ == "__main__":
    torch.set_num_threads(1)
    json.dump({size: group(int(size)) for size in sys.argv[1:]}, sys.stdout)

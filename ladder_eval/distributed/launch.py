"""How the processes of a group come together: started by rank 0 itself, or by torchrun."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist

from ladder_eval.distributed import sealing
from ladder_eval.distributed.children import await_end, ended, kill
from ladder_eval.distributed.mailbox import Mailbox
from ladder_eval.distributed.team import Team
from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.distributed.threads import threads_of_one_in
from ladder_eval.distributed.watch import Watch
from ladder_eval.errors import UsageError, WorkerError

# Waiting for the driver's next operation is no failure: it may be scoring code or asking a judge.
_PATIENCE = timedelta(days=365)
# Where ranks are started by hand, rank 0 may fetch a model before it comes.
_MEETING = timedelta(minutes=30)
# Importing torch can take long where many processes read it from one disk.
_ARRIVAL_SECONDS = 120.0
# Where rank 0 says in the store how many replicas its processes are.
_REPLICAS = "replicas"
# Where a peer has gone, torch would log the C++ stack of every thread that notices.
_QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL", "TORCH_SHOW_CPP_STACKTRACES": "0"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A process's place among those that torchrun, or the driver, has started.

    Attributes:
        rank: Over all nodes.
        world_size: Over all nodes.
        local_rank: On this node.
        local_world_size: On this node.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def place_from_environment(environment: Mapping[str, str]) -> Place | None:
    """The place that torchrun's variables give this process, or None without them.

    Raises:
        UsageError: if only some of them are set, or one is no number.
    """
    if "RANK" not in environment:
        return None
    try:
        world_size = int(environment["WORLD_SIZE"])
        _ = int(environment["MASTER_PORT"]), environment["MASTER_ADDR"]
        return Place(
            rank=int(environment["RANK"]),
            world_size=world_size,
            local_rank=int(environment["LOCAL_RANK"]),
            local_world_size=int(environment.get("LOCAL_WORLD_SIZE", world_size)),
        )
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"RANK is set, but torchrun's other variables are not ({error}); start the command "
            "by torchrun, or unset RANK."
        ) from None


def _is_broken_connection(error: BaseException) -> bool:
    """Whether an error only says that another rank has gone; torch has no class for these."""
    signs = ("gloo", "NCCL", "Connection", "Broken pipe")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


@contextmanager
def drive(tp_size: int, device: torch.device, worker: str, replicas: int = 1) -> Iterator[Team]:
    """Be rank 0 of a team: of torchrun's processes if it started this one, else of own ones.

    Args:
        tp_size: Number of ranks of a tensor-parallel group.
        device: The device of all ranks; `cuda` gives each its own GPU where there are enough.
        worker: The module that own processes run; it has to call `join`.
        replicas: Number of groups; torchrun has to have started as many processes as they need.

    Raises:
        WorkerError: if another rank dies, with its own message.
    """
    place = place_from_environment(os.environ)
    if place is None:
        size = replicas * tp_size
        store, port = _listen(size)
        place = Place(rank=0, world_size=size, local_rank=0, local_world_size=size)
        secret = sealing.new_secret()
        children = _start(worker, port, place, device, secret)
    else:
        store, children = _meet(place), []
        secret = sealing.secret_from_environment(os.environ)
    store.set(_REPLICAS, str(replicas))  # before this rank arrives, so that all find it
    try:
        with _joined(place, store, device, children, secret) as team:
            try:
                yield team
            except Exception as error:
                if not _is_broken_connection(error):
                    raise
                message = team.failure() or "another rank has ended without a message"
                raise WorkerError(message) from error
            except BaseException:
                kill(children)  # or leaving the group would wait for them
                raise
            team.send(None)
            await_end(children)
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()


def hold_leash() -> None:
    """End this worker as soon as the driver that started it has ended, however that came about.

    The driver holds the other end of standard input, which closes with it.
    """

    def wait_for_end() -> None:
        # Not through sys.stdin, whose lock Python would miss when this process ends first.
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=wait_for_end, name="leash", daemon=True).start()


@contextmanager
def join(device: torch.device) -> Iterator[Team]:
    """Be another rank of the group that the environment names.

    Raises:
        UsageError: if the environment names none.
    """
    place = place_from_environment(os.environ)
    if place is None or place.rank == 0:
        raise UsageError("A worker is started by `ladder-eval run --tp` or torchrun, not by hand.")
    secret = sealing.secret_from_environment(os.environ)
    with _joined(place, _meet(place), device, (), secret) as team:
        try:
            yield team
        except Exception as error:
            if _is_broken_connection(error):
                raise WorkerError("another rank has ended") from error
            team.fail(error)
            raise


@contextmanager
def _joined(
    place: Place,
    store: dist.TCPStore,
    device: torch.device,
    children: Sequence[subprocess.Popen[bytes]],
    secret: str,
) -> Iterator[Team]:
    device, backend = _device_and_backend(place, device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # A connection of its own: a blocked collective holds the lock of the one it uses.
    connection = store.clone()  # type: ignore[attr-defined]
    watch = Watch(
        connection,
        place.rank,
        place.world_size,
        ended=lambda: ended(children),
        on_end=lambda: kill(children),
    )
    try:
        _arrive(store, place, children)
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("group", store),
            rank=place.rank,
            world_size=place.world_size,
        )
        control = dist.new_group(backend="gloo", timeout=_PATIENCE)
        sealing.gather(place.rank, secret, control)  # before anything else, who knows the secret
        replicas = int(store.get(_REPLICAS))
        tp_size = place.world_size // replicas
        with threads_of_one_in(place.local_world_size, device):
            yield Team(
                tp=TensorParallel(place.rank % tp_size, tp_size, _group_of(place, tp_size)),
                device=device,
                backend=backend,
                replica=place.rank // tp_size,
                replicas=replicas,
                _control=control,
                _watch=watch,
                _mailbox=Mailbox(store.clone(), place.rank, secret),  # type: ignore[attr-defined]
                _children=children,
                _secret=secret,
            )
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        watch.stop()


def _group_of(place: Place, tp_size: int) -> dist.ProcessGroup | None:
    """The tensor-parallel group of a rank; every rank has to help to make those of all."""
    if tp_size == place.world_size:
        return dist.group.WORLD
    if tp_size == 1:
        return None
    starts = range(0, place.world_size, tp_size)
    groups = [dist.new_group(list(range(start, start + tp_size))) for start in starts]
    return cast("dist.ProcessGroup", groups[place.rank // tp_size])


def _arrive(
    store: dist.TCPStore, place: Place, children: Sequence[subprocess.Popen[bytes]]
) -> None:
    """Wait until all ranks are there, in Python, so that Ctrl-C and dead workers are noticed.

    Raises:
        WorkerError: if a worker has ended, or an own one doesn't come.
    """
    store.set(f"arrived/{place.rank}", "")
    deadline = time.monotonic() + _ARRIVAL_SECONDS
    while missing := [
        rank for rank in range(place.world_size) if not store.check([f"arrived/{rank}"])
    ]:
        if reason := ended(children):
            raise WorkerError(reason)
        if children and time.monotonic() > deadline:
            raise WorkerError(f"rank {missing[0]} has not come within {_ARRIVAL_SECONDS:.0f} s")
        time.sleep(0.1)


def _device_and_backend(place: Place, device: torch.device) -> tuple[torch.device, str]:
    """Own GPUs and NCCL where there are enough; a shared one and Gloo where there aren't."""
    if device.type != "cuda":
        return device, "gloo"
    if ":" in str(device):
        raise UsageError(f"--device {device} is one GPU; give cuda, of which each rank takes one.")
    count = torch.cuda.device_count()
    if count >= place.local_world_size:
        return torch.device("cuda", place.local_rank), "nccl"
    return torch.device("cuda", place.local_rank % count), "gloo"


def _listen(size: int) -> tuple[dist.TCPStore, int]:
    """A store that only this machine can reach."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(
        "127.0.0.1",
        port,
        size,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    _stay_on_loopback()
    return store, port


def _stay_on_loopback() -> None:
    """Keep Gloo, which carries the driver's operations, from listening where others reach it."""
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])


def _meet(place: Place) -> dist.TCPStore:
    """The store of torchrun's agent, or of the driver that started this process."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if place.local_world_size == place.world_size:
        _stay_on_loopback()
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return dist.TCPStore(
        address,
        port,
        place.world_size,
        is_master=place.rank == 0 and not agent,
        wait_for_workers=False,
        timeout=_MEETING,
    )


def _start(
    worker: str, port: int, place: Place, device: torch.device, secret: str
) -> list[subprocess.Popen[bytes]]:
    children = []
    for rank in range(1, place.world_size):
        variables = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": place.world_size,
            "LOCAL_WORLD_SIZE": place.local_world_size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            sealing.SECRET: secret,
            # The same code as this process has, from wherever it has it.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", worker, str(device)],
            env=_QUIET | os.environ | {name: str(value) for name, value in variables.items()},
            stdin=subprocess.PIPE,  # held open by this process alone: see hold_leash
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )
        children.append(child)
    return children

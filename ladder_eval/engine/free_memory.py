"""How much memory is free, on GPUs or on a machine, whose containers may have less than all."""

import os
from pathlib import Path

import torch


def free_bytes(device: torch.device, tp_size: int) -> int:
    """Memory that the ranks of a group can fill, on this machine or on its GPUs."""
    if device.type == "cuda":
        # Of several nodes, the others' GPUs are taken to be like those of this one.
        gpus = range(torch.cuda.device_count())
        return tp_size * min(torch.cuda.mem_get_info(gpu)[0] for gpu in gpus)
    return min(_machine_bytes(), *map(_group_bytes, _control_groups()))


def _machine_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024
    except (OSError, StopIteration):  # not Linux
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_GROUPS = Path("/sys/fs/cgroup")


def _control_groups() -> list[Path]:
    """The folders of this process's control group and of those around it, such as a container's."""
    try:
        line = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()[-1]
    except (OSError, IndexError):  # not Linux
        return [_GROUPS]
    own = _GROUPS / line.rpartition(":")[2].lstrip("/")
    return [own, *(parent for parent in own.parents if _GROUPS in (parent, *parent.parents))]


def _group_bytes(group: Path) -> int:
    """What a control group's limit leaves, if it has one; cached files can be given back."""
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):  # no such group, or "max"
        return 2**63
    cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    return limit - used + cached

"""Who, where and with what: the part of a result that lets somebody else repeat it."""

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import ladder_eval

__all__ = ["commit", "hardware", "peak_memory_bytes", "versions"]

_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "lm-eval",
    "datasets",
    "numpy",
    "scipy",
    "pandas",
    "safetensors",
    "gguf",
)


def versions() -> dict[str, str]:
    """Version of Python, of this package, and of every package that can change a number."""
    own = {"python": platform.python_version(), "ladder-eval": ladder_eval.__version__}
    return own | {name: metadata.version(name) for name in _PACKAGES}


def commit() -> str | None:
    """Commit of the checkout that this package runs from, `-dirty` if it was changed since.

    None where it runs from an installed wheel.
    """
    root = Path(ladder_eval.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
        found = subprocess.run(git, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def hardware(accelerators: Sequence[str] = ()) -> dict[str, str | int | float | list[str]]:
    """Processor, usable cores, memory in bytes, and the accelerators that the caller has seen."""
    found: dict[str, str | int | float | list[str]] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
    }
    return found | ({"accelerators": list(accelerators)} if accelerators else {})


def peak_memory_bytes() -> int:
    """Largest resident size that this process has had."""
    status = Path("/proc/self/status")
    if status.is_file():  # ru_maxrss may be that of the process which started this one
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux KiB


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

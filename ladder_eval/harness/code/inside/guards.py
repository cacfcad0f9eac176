"""Limits that a process lays on itself before it runs a program: resources and system calls."""

import ctypes
import platform
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from typing import Final

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_FILTER_MODE = 2
_ALLOW, _REFUSE, _UNKNOWN_CALL = 0x7FFF0000, 0x00050001, 0x00050026  # the latter: EPERM, ENOSYS
_CLONE_THREAD = 0x10000

# Number of the architecture, of `clone` and of `clone3`, and the calls that are refused: new
# processes and programs, signals and looks into other processes, sockets, namespaces, mounts, and
# what would get around this list. include/uapi/asm-generic/unistd.h and syscall_64.tbl of Linux.
_CALLS: Final[Mapping[str, tuple[int, int, int, str]]] = {
    "x86_64": (
        0xC000003E,
        56,
        435,
        "41 57 58 59 62 101 129 155 165 166 200 248 249 250 272 297 298 308 310 311 321 322 323 "
        "424 425 429 434 438 440",
    ),
    "aarch64": (
        0xC00000B7,
        220,
        435,
        "39 40 41 97 117 129 130 138 198 217 218 219 221 240 241 268 270 271 280 281 282 "
        "424 425 429 434 438 440",
    ),
}


def lay_on(limits: Mapping[str, int]) -> bool:
    """Limit this process for good; returns whether the kernel took the list of system calls.

    Where it did not, the process may start none, not even a thread (root may nevertheless).

    Args:
        limits: `memory`, `file`, both in bytes, `cpu` in seconds, and `files`, how many are open.
    """
    _die_with_parent()
    refused = _refuse_calls()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, limits["cpu"])
    _limit(resource.RLIMIT_FSIZE, limits["file"])
    _limit(resource.RLIMIT_NOFILE, limits["files"])
    _limit(resource.RLIMIT_AS, limits["memory"])
    _limit(resource.RLIMIT_DATA, limits["memory"])
    _limit(resource.RLIMIT_STACK, limits["memory"])  # as evalplus: deep recursion is no crash
    if not refused:
        _limit(resource.RLIMIT_NPROC, 0)
    return refused


def _limit(which: int, wanted: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (ValueError, OSError):  # a kernel without this limit, such as macOS' without RLIMIT_AS
        return


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _refuse_calls() -> bool:
    """Install a seccomp filter (Linux' seccomp_filter.txt); it holds for all that follows."""
    calls = _CALLS.get(platform.machine())
    if sys.platform != "linux" or calls is None:
        return False
    program = b"".join(struct.pack("<HBBI", *step) for step in _steps(*calls))
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return not libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.c_char_p(header), 0, 0)


def _steps(
    architecture: int, clone: int, clone3: int, refused: str
) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand), in classic BPF.

    `clone3` hides its flags behind a pointer, so it's called unknown, and libc takes `clone`.
    """
    load, equal, least, bits, end = 0x20, 0x15, 0x35, 0x45, 0x06
    lists = [
        step
        for call in refused.split()
        for step in ((equal, 0, 1, int(call)), (end, 0, 0, _REFUSE))
    ]
    return [
        (load, 0, 0, 4),  # the architecture: a process can call in the form of another one
        (equal, 1, 0, architecture),
        (end, 0, 0, _REFUSE),
        (load, 0, 0, 0),  # the call
        (least, 0, 1, 0x40000000),  # the x32 numbers of the same calls
        (end, 0, 0, _REFUSE),
        *lists,
        (equal, 0, 1, clone3),
        (end, 0, 0, _UNKNOWN_CALL),
        (equal, 0, 3, clone),
        (load, 0, 0, 16),  # its flags: threads are allowed, processes aren't
        (bits, 1, 0, _CLONE_THREAD),
        (end, 0, 0, _REFUSE),
        (end, 0, 0, _ALLOW),
    ]

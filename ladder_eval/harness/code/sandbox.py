"""Where a program runs: bubblewrap's namespaces, or a bare process for those who insist.

In bubblewrap a program sees the system's libraries, this Python and its packages, read-only; an
empty home and scratch folder that vanish; no network, no other process, no variable of the user's.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from ladder_eval.errors import UsageError
from ladder_eval.harness.code.limits import Limits

__all__ = ["ENVIRONMENT", "Sandbox", "find_sandbox"]

_INSIDE: Final = Path(__file__).parent / "inside"
_MOUNTED: Final = "/ladder_eval"
_HOME: Final = "/tmp/home"
_PYTHON: Final = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ALSO: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set is the same at every run
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All variables that a program has, besides HOME."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A way to start programs.

    Attributes:
        kind: bubblewrap, or none.
        limits: What each may use.
    """

    kind: Literal["bubblewrap", "none"]
    limits: Limits = field(default_factory=Limits)

    @contextmanager
    def start(self, job: IO[bytes], errors: int = subprocess.DEVNULL) -> Iterator[Any]:
        """Run one program in a session of its own, whose scratch folder is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="ladder-eval-", ignore_cleanup_errors=True) as home:
            wrapped = self.kind == "bubblewrap"
            yield subprocess.Popen(
                self._bubblewrap() if wrapped else _python(_INSIDE.parent),
                stdin=job,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/" if wrapped else home,
                env=ENVIRONMENT | {"HOME": _HOME if wrapped else home},
                start_new_session=True,
            )

    def _bubblewrap(self) -> list[str]:
        """The command. Nothing of the user's is listed, so nothing of the user's is there."""
        own = ["--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL"]
        seen = [part for place in _SYSTEM for part in _system(place)]
        packages = {sys.base_prefix, *_packages()}
        for place in sorted({*packages, *_ALSO}):  # a folder before what lies in it
            if not place.startswith("/usr/"):
                seen += ["--ro-bind-try", place, place]
        for device in _DEVICES:
            seen += ["--dev-bind", device, device]
        # Before the packages, which may lie below it.
        scratch = ["--size", str(self.limits.disk), "--tmpfs", "/tmp"]
        scratch += ["--dir", _HOME, "--chdir", _HOME]
        code = ["--ro-bind", str(_INSIDE), f"{_MOUNTED}/inside"]
        close = ["--remount-ro", "/"]
        program = shutil.which("bwrap") or "bwrap"  # before PATH is the sandbox' own
        return [program, *own, *scratch, *seen, *code, *close, "--", *_python(_MOUNTED)]


def find_sandbox(*, unsafe: bool, limits: Limits | None = None) -> Sandbox:
    """The sandbox of this machine, tried out; without one only where `unsafe` says so.

    Raises:
        UsageError: If bubblewrap is missing or can't run, saying what to do.
    """
    limits = limits or Limits()
    if unsafe:
        return Sandbox("none", limits)
    if shutil.which("bwrap") is None:
        raise UsageError(
            "Programs that models wrote run in bubblewrap, which isn't installed; install it "
            "(`apt-get install bubblewrap`), or pass --unsafe-execution to run them with your own "
            "rights and some limits."
        )
    sandbox = Sandbox("bubblewrap", limits)
    if reason := _refusal(sandbox):
        raise UsageError(
            f"bubblewrap can't run here ({reason}); allow user namespaces (in Docker by a "
            "seccomp profile that has them), or pass --unsafe-execution to run the programs "
            "with your own rights and some limits."
        )
    return sandbox


def _refusal(sandbox: Sandbox) -> str | None:
    """Why a program without a job doesn't even fail as it should; None if it does."""
    with tempfile.TemporaryFile() as job, sandbox.start(job, subprocess.PIPE) as process:
        try:
            said = process.communicate(timeout=60)[1].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "it hangs"
    lines = said.splitlines() or [f"exit code {process.returncode}"]
    return None if "JSONDecodeError" in lines[-1] else lines[-1].removeprefix("bwrap: ")


def _system(place: str) -> list[str]:
    """/lib is a link into /usr on most systems, a folder on some, and absent on others."""
    if os.path.islink(place):
        return ["--symlink", os.readlink(place), place]
    return ["--ro-bind", place, place] if os.path.isdir(place) else []


def _packages() -> Sequence[str]:
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _python(folder: Path | str) -> list[str]:
    """Python without `site`, whose .pth files could run anything, but with its packages."""
    begin = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); from inside.program import main; "
        f"sys.path[:1] = []; sys.path += {list(_packages())!r}; main()"
    )
    return [_PYTHON, "-B", "-s", "-S", "-P", "-c", begin]

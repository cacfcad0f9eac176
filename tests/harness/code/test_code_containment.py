"""What programs try, and that nothing of it gets out, stays, or stops the next."""

import os
import socket
import subprocess
import sys
import time
import uuid

import pytest
from code_problems import SMALL, marked, sandbox_or_skip

from ladder_eval.harness.code import sandbox as sandboxes
from ladder_eval.harness.code.running import Job, NoValueError, run
from ladder_eval.harness.code.sandbox import ENVIRONMENT, Sandbox

HARMLESS = "def f(x):\n    return x, 1"

WRITES = """
import os
def write(line):
    for descriptor in range(3, 9):
        try:
            os.write(descriptor, line)
        except OSError:
            pass
def f(x):
"""
STUBBORN = """
def f(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and namespaces are Linux'")


@pytest.fixture
def mark(monkeypatch):
    """What all processes of a test have in their environment."""
    mark = uuid.uuid4().hex
    monkeypatch.setitem(ENVIRONMENT, "MARK", mark)
    return mark


@pytest.fixture(params=["bubblewrap", "none"])
def sandbox(request, mark):
    """Each kind, with no process left after the test, and the next program running as ever."""
    found = sandbox_or_skip(request.param)
    begun = time.monotonic()
    yield found
    assert time.monotonic() - begun < 15
    assert outcome(HARMLESS, found) == [("me", 1)]
    assert marked(mark) == []


@pytest.fixture
def bubblewrap():
    return sandbox_or_skip("bubblewrap")


def outcome(code, sandbox, given=("me",), seconds=1.0):
    """The values, or what went wrong."""
    job = Job(code=code, entry_point="f", inputs=[given], seconds=[seconds], total=2.0)
    try:
        return [output.value for output in run(job, sandbox)]
    except NoValueError as error:
        return error.kind, str(error)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("import os\ndef f(x):\n    while True: os.fork()", "exception", "PermissionError"),
        ("import os\nwhile True: os.fork()\n", "exception", "PermissionError"),
        (
            "import subprocess\ndef f(x): return subprocess.run(['true'])",
            "exception",
            "PermissionError",
        ),
        ("import os\ndef f(x): os.execv('/bin/true', ['true'])", "exception", "PermissionError"),
        ("def f(x):\n    while True: pass", "timeout", ""),
        ("while True: pass\n", "timeout", ""),
        (STUBBORN, "timeout", ""),
        ("def f(x): return input()", "exception", "EOFError"),
        ("import sys\ndef f(x): return sys.stdin.buffer.raw.read(1)[0]", "exception", "IndexError"),
        ("def f(x): return len(bytearray(8 << 30))", "memory", "MemoryError"),
        ("def f(x):\n    a = []\n    while True: a.append(bytes(10**7))", "memory", "MemoryError"),
        ("def f(x): return 'x' * 10**6", "output", "bytes"),
        (f"{WRITES}    while True: write(b'x' * 65536)", "output", "result"),
        ("import socket\ndef f(x): return socket.socket()", "exception", "PermissionError"),
        ("import os\ndef f(x): os.kill(os.getppid(), 9)", "exception", "PermissionError"),
        ("import os\ndef f(x): os.killpg(0, 9)", "exception", "PermissionError"),
        ("import os\ndef f(x): os._exit(0)", "exception", "of its own accord"),
        ("def f(x): raise SystemExit", "exception", "SystemExit"),
        ("def f(x): return f(x)", "exception", "RecursionError"),
        ("import ctypes\ndef f(x): ctypes.string_at(0)", "exception", "signal 11"),
        ("def f(x: return", "syntax", "SyntaxError"),
        ("def g(x): return x", "exception", "KeyError"),
        ("def f(x): raise ValueError('a' * 10**6)", "exception", "ValueError"),
    ],
)
def test_attempts_end_as_failures_of_their_kind(code, kind, words, sandbox):
    found = outcome(code, sandbox)
    assert found[0] == kind
    assert words in found[1]
    assert len(found[1]) < 400


def test_printing_a_gigabyte_is_in_vain(sandbox):
    code = "def f(x):\n    for _ in range(1000): print('x' * 10**6)\n    return x, 2"
    assert outcome(code, sandbox, seconds=10.0) == [("me", 2)]


def test_an_endless_sleep_is_a_timeout(sandbox, monkeypatch):
    monkeypatch.setattr("ladder_eval.harness.code.running.wall_limit", lambda seconds: 1.5)
    assert outcome("import time\ndef f(x): time.sleep(60)", sandbox)[0] == "timeout"


def test_forged_lines_are_not_believed(sandbox):
    wrong = "    write({!r})"
    for line in (b"{}\n", b"[" * 9000 + b"\n", b'["value",["nothing"],0]\n'):
        found = outcome(WRITES + wrong.format(line), sandbox)
        assert found == ("output", "its results can't be read")


def test_no_variable_of_the_users_is_seen(sandbox, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hidden-one")
    code = (
        "import os, glob\ndef f(x):\n    found = [str(dict(os.environ))]\n"
        "    for name in glob.glob('/proc/self/environ') + glob.glob('/proc/1/environ'):\n"
        "        try: found.append(open(name, 'rb').read().decode())\n"
        "        except OSError: pass\n    return '|'.join(found)"
    )
    (found,) = outcome(code, sandbox)
    assert "hidden-one" not in found
    assert "PATH" in found


def test_the_users_files_are_not_there(bubblewrap, tmp_path):
    (tmp_path / "private").write_text("hidden-one")
    seen = "os.path.exists(x), os.listdir('.'), os.path.exists('/proc/1')"
    code = f"import os\ndef f(x):\n    return {seen}"
    assert outcome(code, bubblewrap, (str(tmp_path / "private"),)) == [(False, [], False)]
    home = "import os\ndef f(x):\n    return sorted(os.listdir(os.path.expanduser('~')))"
    assert outcome(home, bubblewrap) == [[]]


@pytest.mark.parametrize(
    "place", ["/", "/usr", "/ladder_eval/inside", "/dev", os.path.expanduser("~")]
)
def test_nothing_can_be_written_outside_of_the_scratch_folder(bubblewrap, place):
    code = "def f(x):\n    open(x + '/written', 'w').write('a')"
    found = outcome(code, bubblewrap, (place,))
    assert found[0] == "exception"
    assert "Read-only" in found[1] or "Permission" in found[1] or "No such" in found[1]
    assert not os.path.exists(f"{place}/written")


def test_the_scratch_folder_is_small_and_gone_afterwards(sandbox):
    small = "def f(x):\n    open('a', 'w').write('a' * 1000)\n    return len(open('a').read())"
    assert outcome(small, sandbox) == [1000]
    assert outcome("import os\ndef f(x): return os.listdir('.')", sandbox) == [[]]
    large = "def f(x):\n    for i in range(99): open('a', 'ab').write(b'a' * 10**5)"
    assert outcome(large, sandbox)[0] in {"exception", "timeout"}


def test_threads_and_numpy_work(sandbox):
    code = (
        "import threading, numpy as np\ndef f(x):\n    found = []\n"
        "    thread = threading.Thread(target=lambda: found.append(np.arange(4).sum()))\n"
        "    thread.start()\n    thread.join()\n    return found"
    )
    assert outcome(code, Sandbox(sandbox.kind), seconds=20.0) == [[6]]


def test_packages_may_lie_below_the_folder_that_is_hidden(bubblewrap, tmp_path, monkeypatch):
    """Such as those of an environment in /tmp, where pytest's folders are, too."""
    (tmp_path / "only_here.py").write_text("ANSWER = 42")
    monkeypatch.setattr(sandboxes, "_packages", lambda: [str(tmp_path)])
    code = "import os, only_here\ndef f(x):\n    return only_here.ANSWER, os.listdir('.')"
    assert outcome(code, bubblewrap) == [(42, [])]


@pytest.mark.parametrize(
    "command", ["sleep 61.25 & sleep 61.25", "setsid sleep 61.25 & sleep 61.25"]
)
def test_processes_that_the_filter_would_have_refused_end_with_their_namespace(
    bubblewrap, monkeypatch, command, mark
):
    """Where the kernel has no filters, the namespace alone has to do."""
    monkeypatch.setattr(sandboxes, "_python", lambda folder: ["/bin/sh", "-c", command])
    monkeypatch.setattr("ladder_eval.harness.code.running.wall_limit", lambda seconds: 0.5)
    assert outcome(HARMLESS, bubblewrap)[0] == "timeout"
    assert marked(mark) == []


def test_the_namespace_alone_has_no_network_and_no_other_processes(bubblewrap, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = f"import socket; socket.create_connection({server.getsockname()!r}, 1)"
        assert "ConnectionRefused" in unguarded(probe, bubblewrap, monkeypatch)
    assert "[Errno 3]" in unguarded(
        f"import os; os.kill({os.getpid()}, 0)", bubblewrap, monkeypatch
    )
    assert (
        unguarded("import os; print(os.path.exists('/proc'))", bubblewrap, monkeypatch) == "False"
    )


def unguarded(code, sandbox, monkeypatch):
    """The last line that Python prints in the namespace, without the filter of calls."""
    monkeypatch.setattr(sandboxes, "_python", lambda _: [sandboxes._PYTHON, "-S", "-c", code])
    with sandbox.start(subprocess.DEVNULL, subprocess.STDOUT) as process:
        return process.communicate(timeout=10)[0].decode().splitlines()[-1]


def test_a_program_dies_with_the_one_who_started_it(sandbox, mark):
    """Killed, it can't kill its own: the kernel does."""
    script = (
        "from ladder_eval.harness.code.running import Job, run\n"
        "from ladder_eval.harness.code.sandbox import ENVIRONMENT, Sandbox\n"
        f"ENVIRONMENT['MARK'] = {mark!r}\n"
        "code = 'import time\\ndef f(x): time.sleep(60)'\n"
        "job = Job(code=code, entry_point='f', inputs=[[0]], seconds=[50], total=61)\n"
        f"print('begun', flush=True)\nlist(run(job, Sandbox({sandbox.kind!r})))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        wait_for(lambda: marked(mark))
        parent.kill()
    wait_for(lambda: not marked(mark))


def wait_for(holds):
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_limits_are_those_that_were_asked_for(sandbox):
    code = (
        "import resource as r\ndef f(x):\n"
        "    return [r.getrlimit(k)[1] for k in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE)]"
    )
    assert outcome(code, sandbox) == [[SMALL.memory, SMALL.disk, SMALL.files]]

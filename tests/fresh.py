"""A fresh interpreter for a program, without the seconds that `import torch` takes in each.

```python
done = fresh.run([sys.executable, "train.py"], cwd=tmp_path)
```

The program runs in a child forked off a process that has imported torch, and what `backsight run` imports. It has its
own `__main__`, arguments, environment, folder and streams; torch, and what there is of backsight, arrives as it imports
that (`held.py`); and it ends as an interpreter ends: threads are joined, `atexit` is heard, objects are torn down, and
the status is its own. For what is about more than that, the command line of python, what an import runs or costs,
signals, `subprocess.run` is right.

With FORKS=0 in the environment all are real processes: whatever passes on a fork has to pass there too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib.util
import inspect
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import IO, Any

_LATER = "first_steps caught forked summary lines newness"
BEFOREHAND = (
    ("backsight", "backsight.cli", "backsight.launch", "backsight.launch.training"),
    (
        *("numpy", "torch", "torch._dynamo"),  # an optimizer's constructor imports torch._dynamo
        *(f"backsight.launch.{name}" for name in _LATER.split()),
        *(f"backsight.{name}" for name in ("diagnosis.heeding", "diagnosis.explained", "text.console", "text.rich")),
        *(f"backsight.{name}" for name in ("findings.printing.terminal", "recording", "traces")),
    ),
    ("backsight.tables",),
    ("numpy.ma",),
    ("torch.distributed.fsdp",),
    ("pytest",),
    ("IPython",),
)
"""What is imported before any program, if it is there; only the second row and that of torch.distributed know torch."""

# What torch, what it imports and the interpreter read of the environment once, as they start.
_READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "TORCH", "PYTORCH", "CUDA"),
    "TRITON_",  # torch._dynamo imports Triton where there is one, and that decides then whether kernels are interpreted
)
# What a child is given though it has started: the rest is torchrun's, and nothing of it is read by `import torch`.
_GIVEN = ("PYTHONPATH", "PYTHONIOENCODING", "TORCHELASTIC_", "TORCH_NCCL_", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE")


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
    stdout: int | None = None,
    stderr: int | None = None,
    timeout: float = 300,
    check: bool = False,
    torn_down: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `[sys.executable, "-c", CODE]`, `"-m", MODULE` or a script, as `subprocess.run` does; all of it is text.

    Both streams are captured unless `stdout` or `stderr` says where they go: the number of a file, or
    `subprocess.STDOUT` for `stderr`. A real process does it elsewhere than on Linux, where a fork of torch is not safe,
    and for a command that only a real process can take: another program, flags of the interpreter, an environment that
    matters at its start. The ranks that torchrun starts are forks as well. Where only what a program writes matters,
    `torn_down=False` has its process gone once `atexit` is heard, without the tenth of a second that tearing down all
    objects takes.
    """
    given = input.encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        first = out.fileno() if stdout is None else stdout
        second = {None: err.fileno(), subprocess.STDOUT: first}.get(stderr, stderr)
        program = _program(command, cwd, env) | {"torn_down": torn_down}
        (status,) = _ended([program], [given], [(first, second)], timeout)
        done = subprocess.CompletedProcess(program["words"], status, _text(out), _text(err))
    if check and status:
        raise subprocess.CalledProcessError(status, done.args, done.stdout, done.stderr)
    return done


def run_together(
    *commands: Sequence[str | os.PathLike[str]],
    envs: Sequence[Mapping[str, str]] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: int | None = None,
    timeout: float = 300,
) -> list[subprocess.CompletedProcess[str]]:
    """Run several programs at once, as the ranks of a training are, each in its environment; else as in `run`."""
    with contextlib.ExitStack() as stack:
        streams = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in commands]
        each_env = envs or [os.environ] * len(commands)
        programs = [_program(each, cwd, env) for each, env in zip(commands, each_env, strict=True)]
        numbers = [(out.fileno(), err.fileno() if stderr is None else stderr) for out, err in streams]
        ended = _ended(programs, [b""] * len(commands), numbers, timeout)
        return [
            subprocess.CompletedProcess(program["words"], status, _text(out), _text(err))
            for program, status, (out, err) in zip(programs, ended, streams, strict=True)
        ]


def given_by_torchrun(ranks: int) -> list[dict[str, str]]:
    """Return what torchrun puts into the environment of each of several processes on this machine, with a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    of_all = {**address, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
    return [{**os.environ, **of_all, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def _program(
    command: Sequence[str | os.PathLike[str]],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    words = [os.fspath(word) for word in command]
    return {"words": words, "cwd": os.fspath(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}


def _ended(
    programs: list[dict[str, Any]],
    given: list[bytes],
    outputs: list[tuple[int, int]],
    timeout: float,
) -> list[int]:
    """Run programs at once; return the status of each."""
    with contextlib.ExitStack() as stack:
        streams = []
        for text, (out, err) in zip(given, outputs, strict=True):
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(text)
            file.seek(0)
            streams.append((file.fileno(), out, err))
        if all(_can_be_forked(each["words"], each["env"]) for each in programs):
            return _server().run(programs, streams, timeout)
        started = [
            stack.enter_context(
                subprocess.Popen(each["words"], cwd=each["cwd"], env=each["env"], stdin=first, stdout=out, stderr=err)
            )
            for each, (first, out, err) in zip(programs, streams, strict=True)
        ]
        try:
            return [process.wait(timeout) for process in started]
        except subprocess.TimeoutExpired:
            for process in started:
                process.kill()
            raise


def _can_be_forked(words: list[str], env: dict[str, str]) -> bool:
    unwanted = os.environ.get("FORKS") == "0" or any(name.startswith("COVERAGE") for name in os.environ)
    if unwanted or sys.platform != "linux":
        return False
    program, first = words[0], words[1 + len(_flags(words))]
    known = program == sys.executable and (first in ("-c", "-m") or not first.startswith("-"))
    return known and _same_start(env)


def _flags(words: list[str]) -> list[str]:
    """The flags of python that a child takes, of those that it is given first: `-u`, and `-W` with its filter."""
    count = 1
    while words[count] in ("-u", "-W"):
        count += 1 + (words[count] == "-W")
    return words[1:count]


def _same_start(env: dict[str, str]) -> bool:
    def matters(of: Mapping[str, str]) -> dict[str, str]:
        return {name: of[name] for name in of if name.startswith(_READ_AT_START) and not name.startswith(_GIVEN)}

    own = any(os.path.exists(os.path.join(folder, "sitecustomize.py")) for folder in _path(env))
    return matters(env) == matters(os.environ) and not own


def _path(env: Mapping[str, str]) -> list[str]:
    return [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


class _Server:
    """The process that has imported torch. It lives until this one ends, or closes its end of the line."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair()
        with theirs:
            env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            ours = os.path.dirname(os.path.dirname(str(importlib.import_module("backsight").__file__)))
            command = [sys.executable, "-c", _START, __file__, str(theirs.fileno()), ours]
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def run(self, requests: list[dict[str, Any]], streams: list[tuple[int, int, int]], timeout: float) -> list[int]:
        """Have programs run, all at once; return the status of each."""
        started: list[int] = []
        ended: list[int] = []
        self.line.settimeout(None)
        for number, (request, three) in enumerate(zip(requests, streams, strict=True), start=1):
            socket.send_fds(self.line, [b"."], three)
            self.line.sendall(json.dumps([request, number < len(requests)]).encode() + b"\n")
            started.append(self._told())
        self.line.settimeout(timeout)
        try:
            while len(ended) < len(started):
                ended.append(self._told())
            return ended
        except TimeoutError:
            for child in started[len(ended) :]:
                os.kill(child, signal.SIGKILL)
            self.line.settimeout(None)
            for _ in started[len(ended) :]:
                self._told()
            raise subprocess.TimeoutExpired(requests[0]["words"], timeout) from None

    def _told(self) -> int:
        """A number that the server says; it says nothing if it has died."""
        said = self.line.recv(32, socket.MSG_WAITALL)
        assert len(said) == 32, "the process that forks has ended"
        return int(said)

    def close(self) -> None:
        self.line.close()
        self.process.wait()


@functools.cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


# Here begins what runs in the server, and then in its children. It counts as the interpreter's: whoever looks for the
# program among what runs, or in its files, finds none of it.

_FROZEN = "<frozen fresh>"
_START = f"""
import os, sys
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[1]))
with open(sys.argv[1], encoding="utf-8") as file:
    code = compile(file.read(), "{_FROZEN}", "exec")
exec(code, {{"__name__": "{_FROZEN}"}})
"""


def _serve(line: socket.socket) -> dict[str, Any]:
    """Fork a child for each request, and return in the child, with what it was asked for.

    After a request that is followed by others, the next child is forked at once; else all that run are waited for.
    """
    import held  # from beside this file, where no program looks for its modules

    atexit.register(_end_if_that_is_all)  # the first, so the last that is called
    del sys.modules["held"]
    sys.path[0] = sys.argv[3]  # the folder of backsight
    there = [[name for name in row if importlib.util.find_spec(name.partition(".")[0])] for row in BEFOREHAND]
    beforehand = held.Held(*(held.imported(*row) for row in there))
    del sys.path[0]
    assert threading.active_count() == 1, "a thread would not be there in a child"
    global _seed
    _seed = sys.modules["numpy"].random.seed
    beforehand.hold()
    _spare_what_is_there()
    _put_into_large_pages()
    lines = line.makefile("rb")
    children: list[int] = []
    while True:
        first, streams, _, _ = socket.recv_fds(line, 1, 3)
        if not first:
            os._exit(0)
        request, followed = json.loads(lines.readline())
        child = os.fork()
        if not child:
            lines.close()
            line.close()
            _take(streams)
            _leave_without_ado()
            return request
        for stream in streams:
            os.close(stream)
        line.sendall(b"%32d" % child)
        children.append(child)
        while children and not followed:
            _, status = os.waitpid(children.pop(0), 0)
            line.sendall(b"%32d" % os.waitstatus_to_exitcode(status))


_seed: Callable[[], None]
"""Numpy's, which does not see that a process is a fork; `random` does."""


def _take(streams: Sequence[int]) -> None:
    """Make these streams, and random numbers of its own, those of this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _seed()


_TORCHRUN = ["-m", "torch.distributed.run"]


def _with_ranks() -> dict[str, Any]:
    """Have the ranks that torchrun starts be forks of this process as it is now; return in each what it is asked for.

    They are forked by another process, which leaves them to this one: torchrun waits for them, and ends them.
    """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER of sys/prctl.h
    line, theirs = socket.socketpair()
    if not os.fork():
        line.close()
        return _fork_ranks(theirs)
    theirs.close()
    signature = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]

    class Forked(subprocess.Popen):  # type: ignore[type-arg]
        def _execute_child(self, *given: Any) -> None:
            named = signature.bind(self, *given).arguments
            words, env = [os.fspath(word) for word in named["args"]], dict(named["env"] or os.environ)
            if not _can_be_forked(words, env):
                super()._execute_child(*given)  # type: ignore[misc]
                return
            outputs = (named["c2pwrite"], named["errwrite"])
            streams = [0, *(given if given >= 0 else own for own, given in enumerate(outputs, start=1))]
            socket.send_fds(line, [b"."], streams)
            line.sendall(json.dumps({"words": words, "cwd": os.getcwd(), "env": env}).encode() + b"\n")
            self.pid = int(line.recv(32, socket.MSG_WAITALL))
            self._child_created = True

    subprocess.Popen = Forked  # type: ignore[misc]
    return {}


def _fork_ranks(line: socket.socket) -> dict[str, Any]:
    """Fork a rank for each request, by a process that ends at once; return in the rank."""
    lines = line.makefile("rb")
    while True:
        first, streams, _, _ = socket.recv_fds(line, 1, 3)
        if not first:
            os._exit(0)
        request: dict[str, Any] = json.loads(lines.readline())
        told, telling = os.pipe()
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            line.sendall(os.read(told, 32))
            for each in (*streams, told, telling):
                os.close(each)
            continue
        rank = os.fork()
        if rank:
            os.write(telling, b"%32d" % rank)
            os._exit(0)
        os.setsid()
        lines.close()
        line.close()
        os.close(told)
        os.close(telling)
        _take(streams)
        return request


def _spare_what_is_there() -> None:
    """Keep what is there from the collector, in every child, and from being freed as one ends.

    A collection would look at PyTorch for a fifth of a second, and copy all of its memory for this process. To free it
    object by object, or to have it take back each library of operators that it has registered with itself, just before
    the process is gone with all of it, takes long too. But `gc.get_referrers` answers with nothing of it: a program
    that asks who of PyTorch's holds something calls `gc.unfreeze` first.
    """
    gc.collect()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(gc.get_objects()))
    gc.freeze()
    for each in list(weakref.finalize._registry):
        each.atexit = False


def _put_into_large_pages() -> None:
    """Have memory lie in pages of 2 MB, where Linux can: a fork and its end pass over each, of tens of thousands else.

    Source: madvise(2), `MADV_COLLAPSE`, since Linux 6.1; what cannot be done is left as it is.
    """
    madvise, size = ctypes.CDLL(None).madvise, 1 << 21
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ranges = [line.split()[0].split("-") for line in maps if line.split()[1] == "rw-p"]
    for first, last in ranges:
        begin, end = -(-int(first, 16) // size) * size, int(last, 16) // size * size
        if begin < end:
            madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 25)


def _leave_without_ado() -> None:
    """Have the process end where the interpreter has ended, and what C has buffered is written.

    What C++ does then for each of PyTorch's operators and registries takes a tenth of a second.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc's: it is given the status, and the last one that is registered runs first
        libc.on_exit(libc._exit, None)
        libc.on_exit(libc._IO_flush_all, None)


_status: int | None = None
"""What a program that is not torn down ends with, once that is known."""


def _end_if_that_is_all() -> None:
    """End the process before its objects are torn down, unless that was asked for or something cannot be written."""
    if _status is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).fflush(None)
            os._exit(_status)


def _begin(words: list[str], cwd: str, env: dict[str, str]) -> ModuleType:
    """Make of this process what python makes of itself before it runs a program; return its `__main__`."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    encoding = env.get("PYTHONIOENCODING")
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding=encoding)
    flags = _flags(words)
    unbuffered = "-u" in flags
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(
        open(1, "wb", 0 if unbuffered else -1),  # noqa: SIM115
        encoding=encoding,
        line_buffering=os.isatty(1),
        write_through=unbuffered,
    )
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", encoding=encoding, errors="backslashreplace", buffering=1)
    sys.orig_argv = [*words]
    del words[1 : 1 + len(flags)]
    _filter_warnings([word for flag, word in pairwise(flags) if flag == "-W"])
    sys.argv = words[1:] if words[1] not in ("-c", "-m") else [words[1], *words[3:]]
    first = {"-c": "", "-m": cwd}.get(words[1], os.path.dirname(os.path.realpath(words[1])))
    sys.path[:0] = [first, *_path(env)]
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    return main


_DEFAULT_FILTERS = [*warnings.filters]


def _filter_warnings(asked: list[str]) -> None:
    """Filter warnings as `-W` asks, which comes after what modules have asked for as they were imported."""
    if asked:
        of_modules = [each for each in warnings.filters if each not in _DEFAULT_FILTERS]
        sys.warnoptions += asked
        warnings.filters[:] = _DEFAULT_FILTERS
        warnings._processoptions(asked)  # type: ignore[attr-defined]
        warnings.filters[:0] = of_modules


def _run(words: list[str], main: ModuleType) -> None:
    """Run a program in its `__main__`, and tell of its error as the interpreter does."""
    try:
        if words[1] == "-c":
            exec(compile(words[2], "<string>", "exec"), vars(main))
        elif words[1] == "-m":
            importlib.import_module("runpy")._run_module_as_main(words[2], alter_argv=True)
        else:
            from importlib.machinery import SourceFileLoader

            main.__file__ = os.path.abspath(words[1])
            main.__loader__ = loader = SourceFileLoader("__main__", main.__file__)
            vars(main)["__cached__"] = None
            exec(loader.source_to_code(loader.get_data(main.__file__), main.__file__), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            raise
        trace = BaseException.__traceback__.__get__(error)  # an exception may answer nothing itself
        while trace is not None and trace.tb_frame.f_code.co_filename == _FROZEN:
            trace = trace.tb_next
        sys.stdout.flush()
        sys.excepthook(type(error), BaseException.with_traceback(error, trace), trace)
        sys.exit(1)


if __name__ == _FROZEN:
    asked = _serve(socket.socket(fileno=int(sys.argv[2])))
    torn_down = asked.pop("torn_down", True)
    if asked["words"][1:3] == _TORCHRUN:
        asked = _with_ranks() or asked
    try:
        _run(asked["words"], _begin(**asked))
    except SystemExit as left:
        _status = None if torn_down else left.code & 255 if isinstance(left.code, int) else int(left.code is not None)
        raise
    _status = None if torn_down else 0

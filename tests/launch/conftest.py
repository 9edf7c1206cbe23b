"""Programs written to a folder and run twice: by plain python and by the launcher.

They are forked off a process that has imported torch (`fresh.py`), unless the test is marked `process`, as it is about

- what python makes of a process: how it starts, what it says of an error, how it ends, how deep its stack may be;
- what backsight does as torch arrives, which on a fork is whole at once: each thing that it looks for has such a test;
- programs without torch, for which a fork costs more than a process.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fresh
import pytest
from surroundings import HERE, environment

LIMIT = 120  # seconds: not an expectation, only an end for what hangs


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status (negative for a signal) and what it wrote."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Workbench:
    """A folder of programs and the two ways to run them.

    Most tests are of what a run says: it ends before its objects are torn down, except where both ways are compared and
    where a test asks for it with `to_the_end`.
    """

    folder: Path
    real: bool = False
    torn_down: bool = False

    @property
    def forked(self) -> Workbench:
        """The same for a run that another one is compared with, of which a fork tells as much."""
        return replace(self, real=False)

    @property
    def to_the_end(self) -> Workbench:
        """The same for a run whose objects are torn down as well, for which each fork takes a tenth of a second."""
        return replace(self, torn_down=True)

    def write(self, name: str, source: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else source.encode())
        return path

    def python(self, *command: str, flags: Sequence[str] = (), **options: object) -> Ended:
        return self._run([sys.executable, *flags, *command], **options)

    def launched(
        self,
        *command: str,
        observer: str = "Silent",
        flags: Sequence[str] = (),
        as_module: bool = False,
        **options: object,
    ) -> Ended:
        driver = ["-m", "driver"] if as_module else [str(HERE / "driver.py")]
        return self.to_the_end._run([sys.executable, *flags, *driver, observer, *command], **options)

    def observed(self, *command: str, flags: Sequence[str] = (), **options: object) -> Ended:
        """Run `backsight run` as a user would."""
        return self._run([sys.executable, *flags, "-m", "backsight", "run", *command], **options)

    def same(self, *command: str, **options: object) -> Ended:
        """Run the program both ways, see that nothing differs, and return how it ended, also if by a signal."""
        plain = self.to_the_end.python(*command, killed=True, **options)
        assert self.launched(*command, killed=True, **options) == plain
        return plain

    def _run(self, command: Sequence[str], killed: bool = False, **options: object) -> Ended:
        """Run a command to its end, which is by a signal only where that is expected."""
        ended = self._ended(command, **options)
        assert ended.status >= 0 or killed or "interrupted_at" in options, f"a signal has ended it: {ended}"
        return ended

    def _ended(
        self,
        command: Sequence[str],
        stdin: str = "",
        merged: bool = False,
        env: dict[str, str] | None = None,
        interrupted_at: str | None = None,
        sent: signal.Signals = signal.SIGINT,
    ) -> Ended:
        """Run a command to its end; once it has printed the line `interrupted_at` it gets the signal `sent`."""
        env = environment(env or {})
        if not self.real and interrupted_at is None:
            stderr = subprocess.STDOUT if merged else None
            given = {"cwd": self.folder, "env": env, "input": stdin, "stderr": stderr, "timeout": LIMIT}
            done = fresh.run(command, **given, torn_down=self.torn_down)
            return Ended(done.returncode, done.stdout, done.stderr)
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            text=True,
        )
        with process:
            seen = ""
            while interrupted_at is not None and not seen.endswith(f"{interrupted_at}\n"):
                line = process.stdout.readline()
                assert line, f"ended before it printed {interrupted_at!r}: {process.stderr.read()}"
                seen += line
            if interrupted_at is not None:
                process.send_signal(sent)
            try:
                out, err = process.communicate(stdin, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ended(process.returncode, seen + out, err or "")


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Workbench:
    return Workbench(tmp_path, real=request.node.get_closest_marker("process") is not None)


@pytest.fixture
def same(bench: Workbench) -> Callable[..., Ended]:
    """Run the text of a script both ways, see that nothing differs, and return how it ended."""

    def run(source: str | bytes, *argv: str, **options: object) -> Ended:
        bench.write("script.py", source)
        return bench.same("script.py", *argv, **options)

    return run

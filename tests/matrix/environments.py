"""A temporary environment with one PyTorch: found by version, made, and removed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_ASK = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.executable, sep='\\n')"
_SEEN_LINES = 12


class CannotBeMade(Exception):
    """There is no such environment; the text says why, and what there is."""


def python_of(wanted: str) -> Path:
    """Return the interpreter of a version, such as 3.12, or of a path.

    Raises:
        CannotBeMade: if there is none; the text names those that were found.
    """
    if not _VERSION.fullmatch(wanted):
        program = shutil.which(wanted)
        answer = None if program is None else _asked(program)
        if answer is None:
            raise CannotBeMade(f"PYTHON={wanted} is neither a version, such as 3.12, nor a Python that runs")
        return answer[1]
    found: dict[str, Path] = {}
    for program in _candidates(wanted):
        answer = _asked(program)
        if answer is not None:
            version, executable = answer
            if version == wanted or version.startswith(f"{wanted}."):
                return executable
            found.setdefault(version, executable)
    others = ", ".join(sorted(found)) or "none"
    raise CannotBeMade(f"no Python {wanted} was found (others found: {others}); PYTHON also takes the path of one")


def _candidates(version: str) -> Iterator[str]:
    """Yield the programs that may be this Python: by name on the PATH, then those of pyenv, then any other."""
    short = ".".join(version.split(".")[:2])
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for name in (f"python{short}", "python3", "python"):
        yield from filter(None, (shutil.which(name, path=folder) for folder in folders))
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    yield from map(str, sorted(pyenv.glob("3.*/bin/python")))
    yield sys.executable


def _asked(program: str) -> tuple[str, Path] | None:
    """Ask a Python for its version and its real place; None if it does not run, as a shim of pyenv may not."""
    try:
        said = subprocess.run([program, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = said.stdout.splitlines()
    return (lines[0], Path(lines[1])) if said.returncode == 0 and len(lines) == 2 else None


@dataclass(frozen=True)
class Environment:
    """An environment in a folder, into which something can be installed: by uv where there is one, else by pip."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def install(self, *requirements: str | Path, what: str, **around: str) -> None:
        """Install with these arguments of `pip install`, and these variables in addition.

        Raises:
            CannotBeMade: if that cannot be installed; the text is `what` and what the installer said.
        """
        uv = installer()
        if uv is None:
            pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        else:
            pip = [*uv, "pip", "install", "--quiet", "--python", str(self.python)]
        _run([*pip, *map(str, requirements)], what, **around)


@contextmanager
def empty(python: Path, *, keep: bool = False) -> Iterator[Environment]:
    """Make an environment in which there is nothing, and remove it at the end, unless it is to be kept."""
    made = Environment(Path(tempfile.mkdtemp(prefix="backsight-matrix-")))
    try:
        how = [*uv, "venv", "--quiet", "--python", str(python)] if (uv := installer()) else [str(python), "-m", "venv"]
        _run([*how, str(made.folder)], f"no environment can be made with {python}")
        yield made
    finally:
        if keep:
            print(f"kept: {made.folder}", flush=True)
        else:
            shutil.rmtree(made.folder, ignore_errors=True)


@contextmanager
def environment(torch: str, python: Path, extra: Sequence[str] = (), *, keep: bool = False) -> Iterator[Path]:
    """Make an environment with this PyTorch and this checkout with its tests; yield its Python, and remove it.

    torch: a version; extra: further requirements, such as numpy<2.3; keep: leave the environment there.

    Raises:
        CannotBeMade: if something cannot be installed, with what the installer said.
    """
    with empty(python, keep=keep) as made:
        made.install(f"torch=={torch}", what=f"PyTorch {torch} cannot be installed for {_version_of(python)}")
        tools = ("pip", "setuptools>=77", "wheel")  # tests/packaging builds without isolation
        wanted = [f"torch=={torch}", *tools, *extra, "--editable", f"{ROOT}[test]"]
        if installer() is not None:  # some of what the tests use asks for an older PyTorch
            override = made.folder / "override.txt"
            override.write_text(f"torch=={torch}\n", encoding="utf-8")
            wanted += ["--override", str(override)]
        made.install(*wanted, what=f"backsight[test] cannot be installed beside PyTorch {torch}")
        yield made.python


def _version_of(python: Path) -> str:
    answer = _asked(str(python))
    return f"Python {answer[0]}" if answer else str(python)


def installer() -> list[str] | None:
    """Return the command that runs uv, if there is one: it is ten times as fast as pip."""
    program = shutil.which("uv")
    commands = ([program] if program else [], [sys.executable, "-m", "uv"])
    for command in filter(None, commands):
        try:
            if subprocess.run([*command, "--version"], capture_output=True, timeout=60).returncode == 0:
                return command
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


def _run(command: Sequence[str], what: str, **around: str) -> None:
    env = surroundings() | around
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if ended.returncode != 0:
        said = "\n".join(f"  {line}" for line in ended.stdout.strip().splitlines()[-_SEEN_LINES:])
        raise CannotBeMade(f"{what}:\n{said}")


def surroundings() -> dict[str, str]:
    """Return what a process in an environment finds around it: nothing that points to another one.

    And nothing that has each of them compile torch anew: uv installs without bytecode.
    """
    foreign = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_CONSTRAINT", "UV_CONSTRAINT")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return kept | {"NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}

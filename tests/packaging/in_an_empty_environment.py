"""Installs what was built into an empty environment, and tries it there: `make package`.

    python tests/packaging/in_an_empty_environment.py dist

In turn: the wheel alone, the sdist where there is no compiler, and the wheel with everything that is optional. Needs
the package index, for PyTorch; the versions are those of constraints.txt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parents[1] / "constraints.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description="Install a wheel and an sdist into an empty environment and try them.")
    parser.add_argument("dist", type=Path, help="the folder that holds one of each")
    dist: Path = parser.parse_args().dist
    (wheel,), (sdist,) = dist.resolve().glob("*.whl"), dist.resolve().glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--constraint", CONSTRAINTS)

        _run("the wheel alone", *pip, wheel)
        said = _run("", python, HERE / "smoke.py", "--demo", within=folder)
        assert "by the C kernel" in said and "asks for runs, plot, view" in said

        anew = ("--force-reinstall", "--no-deps", "--no-cache-dir")
        _run("the sdist, without a compiler", *pip, *anew, sdist, CC="false", CXX="false")
        said = _run("", python, HERE / "smoke.py", within=folder)
        assert "by PyTorch alone" in said

        _run("the wheel with everything that is optional", *pip, *anew, wheel)
        _run("", *pip, f"{wheel}[all]")
        said = _run("", python, HERE / "smoke.py", within=folder)
        assert "by the C kernel" in said and "all are there" in said


def _run(what: str, *command: str | Path, within: str | None = None, **environment: str) -> str:
    """Run a command in the environment and nothing else, show what it says, and return it."""
    if what:
        print(f"\n{what}", flush=True)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=within,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()

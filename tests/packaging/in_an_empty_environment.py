"""Installs what was built into empty environments, and tries it there: `make package`.

    python tests/packaging/in_an_empty_environment.py dist [--python 3.12] [--torch 2.13.0]

For each Python in turn: the wheel alone, the sdist where there is no compiler, and the wheel with everything that is
optional, beside the newest PyTorch that there is for it. Needs the package index; several GB for each environment.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "matrix"))

from environments import CannotBeMade, Environment, empty, installer, python_of, surroundings  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description="Install a wheel and an sdist into empty environments and try them.")
    parser.add_argument("dist", type=Path, help="the folder that holds one of each")
    parser.add_argument("--python", action="append", metavar="PYTHON", help="a version or a path; may be repeated")
    parser.add_argument("--torch", metavar="VERSION", help="this PyTorch instead of the newest")
    options = parser.parse_args()
    (wheel,), (sdist,) = options.dist.resolve().glob("*.whl"), options.dist.resolve().glob("*.tar.gz")
    pinned = [f"torch=={options.torch}"] if options.torch else []
    try:
        pythons = [python_of(each) for each in options.python or [sys.executable]]
        for python in pythons:
            with empty(python) as made:
                _try(made, wheel, sdist, pinned)
    except CannotBeMade as why:
        sys.exit(f"package: {why}")


def _try(made: Environment, wheel: Path, sdist: Path, pinned: list[str]) -> None:
    version = subprocess.run([made.python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"\n{version}, by {'uv' if installer() else 'pip'}: the wheel alone", flush=True)
    made.install(wheel, *pinned, what="the wheel cannot be installed")
    said = _smoke(made, "--demo")
    assert "by the C kernel" in said and "asks for runs, plot, view" in said

    print(f"\n{version}: the sdist, without a compiler", flush=True)
    anew = ("--force-reinstall", "--no-deps", "--no-cache-dir")
    made.install(*anew, sdist, what="the sdist cannot be installed", CC="false", CXX="false")
    said = _smoke(made)
    assert "by PyTorch alone" in said

    print(f"\n{version}: the wheel with everything that is optional", flush=True)
    made.install(*anew, wheel, what="the wheel cannot be installed again")
    made.install(f"backsight[all] @ {wheel.as_uri()}", *pinned, what="the wheel cannot be installed with its extras")
    said = _smoke(made)
    assert "by the C kernel" in said and "all are there" in said


def _smoke(made: Environment, *options: str) -> str:
    """Try what is installed there and nothing else, show what it says, and return it."""
    ended = subprocess.run(
        [made.python, HERE / "smoke.py", *options],
        cwd=made.folder,
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(ended.stdout, end="", flush=True)
    if ended.returncode:
        sys.exit(f"package: smoke.py ended with exit status {ended.returncode}")
    return ended.stdout


if __name__ == "__main__":
    main()

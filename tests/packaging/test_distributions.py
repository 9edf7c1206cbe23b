"""The sdist and the wheel hold what they have to and nothing else, and what they install works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import torch

import backsight
from backsight._tested import OLDEST, spelt

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "backsight"
MADE_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "src", "docs/codes")
NO_WARNING = "error,default:backsight was installed without its C kernel:RuntimeWarning"
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.egg-info")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it: so nothing is missing in the sdist either."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in MADE_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=NOT_SOURCE)
        else:
            shutil.copy(ROOT / name, tree / name)
    _python("-m", "build", "--no-isolation", "--outdir", str(out), str(tree), cwd=tree)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
def test_the_sdist_holds_the_package_and_what_it_is_built_from(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    made_from = {f"src/backsight/{name}" for name in _source()} | {f"docs/codes/{name}" for name in _codes()}
    made_from |= {"pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"}
    assert {name for name in names if ".egg-info/" not in name} == made_from | {"PKG-INFO", "setup.cfg"}


def test_the_wheel_holds_the_package_without_sources_in_c(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    kernel = {name for name in names if "_kernel" in name and name.endswith((".so", ".pyd"))}
    python = {f"backsight/{name}" for name in _source() if not name.endswith((".c", ".h"))}
    assert names - kernel == python | {f"backsight/codes/{name}" for name in _codes()}


def test_type_checkers_pages_and_the_demo_have_their_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in ("py.typed", "viewer/page/app.js", "viewer/page/viewer.css", "demo/01_second_backward_rnn.py"):
        assert f"backsight/{name}" in names


def test_the_version_stands_in_one_place(metadata: Message) -> None:
    assert metadata["Version"] == backsight.__version__


def test_a_bare_install_asks_for_three_packages(metadata: Message) -> None:
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert required == [f"torch>={spelt(OLDEST)}", "numpy>=1.24", "rich>=13"]


def test_all_is_every_extra_of_users(metadata: Message) -> None:
    (everything,) = (line for line in metadata.get_all("Requires-Dist", []) if line.endswith('extra == "all"'))
    named = everything.partition("[")[2].partition("]")[0].split(",")
    of_developers = {"all", "test", "bench", "docs", "lint"}
    assert set(named) == set(metadata.get_all("Provides-Extra", [])) - of_developers


@pytest.mark.slow
def test_what_the_wheel_installs_works_without_a_warning(wheel: Path, tmp_path: Path) -> None:
    """In a folder that is first on the path, since an empty environment would have to be given PyTorch again."""
    target = tmp_path / "installed"
    _python("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    smoke = str(Path(__file__).with_name("smoke.py"))
    said = _python(smoke, cwd=tmp_path, PYTHONPATH=str(target), PYTHONWARNINGS=NO_WARNING).splitlines()
    assert said[0] == f"backsight {backsight.__version__} in {target / 'backsight'}, PyTorch {torch.__version__}"
    assert [line.partition(":")[0] for line in said[1:]] == [
        "metadata", "graph", "audit", "recording", "pages", "release", "command", "missing_extras",
    ]  # fmt: skip


def _source() -> set[str]:
    """Every file of the package that is not made by building or running it."""
    return {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and file.suffix not in (".so", ".pyd", ".pyc")
    }


def _codes() -> set[str]:
    """The pages of the codes, which `backsight explain` prints."""
    return {file.name for file in (SOURCE.parents[1] / "docs" / "codes").glob("BS*.md")}


def _python(*arguments: str, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout

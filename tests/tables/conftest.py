"""`backsight runs` as a user would run it, and a folder with a run in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fresh
import pytest
from shown import Command, Net, environment, record


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run `backsight runs ...` as a user would, its output in a pipe."""

    def run(*words: str, columns: int | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
        env = environment(**extra, **({} if columns is None else {"COLUMNS": str(columns)}))
        line = [sys.executable, "-m", "backsight", "runs", *words]
        return fresh.run(line, cwd=tmp_path, env=env, timeout=120, torn_down=False)

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of `Net` in it."""
    folder = tmp_path_factory.mktemp("trained")
    record(folder / "runs" / "first", Net())
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "first").symlink_to(trained / "runs" / "first")
    return tmp_path / "runs"

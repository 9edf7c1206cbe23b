"""A Python is found by its version or its path, and an environment never outlives who asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import environments
import pytest
from environments import CannotBeMade, environment, python_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Pythons of these tests are shell scripts")

HERE = Path(__file__).parent
OWN = ".".join(map(str, sys.version_info[:2]))


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def speaking(version: str) -> str:
    return f"echo {version}; echo /where/it/is/python{version}"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A PATH with nothing on it, and no pyenv."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return folder


def test_a_version_is_asked_of_the_program_and_not_believed_of_its_name(path):
    program(path, "python3.9", speaking("3.8.1"))
    program(path, "python3", speaking("3.9.7"))
    assert python_of("3.9") == python_of("3.9.7") == Path("/where/it/is/python3.9.7")


def test_a_shim_of_pyenv_that_runs_nothing_is_passed_over(path, tmp_path):
    program(path, "python3.9", "echo 'pyenv: python3.9: command not found' >&2; exit 127")
    inside = tmp_path / "pyenv" / "versions" / "3.9.18" / "bin"
    inside.mkdir(parents=True)
    program(inside, "python", speaking("3.9.18"))
    assert python_of("3.9") == Path("/where/it/is/python3.9.18")


def test_a_version_is_not_mistaken_for_one_that_begins_like_it(path):
    program(path, "python3", speaking("3.90.1"))
    with pytest.raises(CannotBeMade):
        python_of("3.9")


def test_without_that_version_those_that_there_are_are_named(path):
    program(path, "python3", speaking("3.9.7"))
    with pytest.raises(CannotBeMade, match=r"no Python 3\.7 was found \(others found: 3\.\d+\.\d+, 3\.9\.7\)"):
        python_of("3.7")


def test_a_path_is_taken_as_it_is_and_one_that_does_not_run_is_refused(path):
    assert python_of(str(program(path, "mine", speaking("3.9.7")))) == Path("/where/it/is/python3.9.7")
    with pytest.raises(CannotBeMade, match=r"neither a version, such as .*, nor a Python that runs"):
        python_of(str(program(path, "broken", "exit 1")))
    with pytest.raises(CannotBeMade, match="PYTHON=/nowhere"):
        python_of("/nowhere")


def test_what_the_installer_says_is_told_and_the_environment_is_gone(path, tmp_path, monkeypatch):
    program(path, "uv", 'case "$*" in *torch==*) echo "no version of torch==9.9.9" >&2; exit 1;; esac')
    monkeypatch.setattr(environments, "_asked", lambda program: ("3.9.7", Path(program)))
    monkeypatch.setattr(environments.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CannotBeMade) as why, environment("9.9.9", Path("/python")):
        raise AssertionError("there is no such environment")
    assert str(why.value) == "PyTorch 9.9.9 cannot be installed for Python 3.9.7:\n  no version of torch==9.9.9"
    assert not list(tmp_path.glob("backsight-matrix-*"))


@pytest.mark.parametrize("keep", [False, True])
def test_an_environment_is_removed_unless_it_is_to_be_kept(tmp_path, monkeypatch, keep):
    monkeypatch.setattr(environments, "_run", lambda *given, **around: None)
    monkeypatch.setattr(environments.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), environment("2.15.0", Path(sys.executable), keep=keep):
        raise KeyboardInterrupt
    assert len(list(tmp_path.glob("backsight-matrix-*"))) == keep


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_it_installs_removes_the_environment(tmp_path, sent):
    program(tmp_path / "bin", "uv", 'case "$*" in *venv*) touch "$TMPDIR/began"; exec sleep 600;; esac')
    process = subprocess.Popen(
        [sys.executable, str(HERE / "matrix.py"), "--torch", "2.15.0", "--python", sys.executable],
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if (tmp_path / "began").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "matrix: stopped; what was finished is kept\n")
    assert not list(tmp_path.glob("backsight-matrix-*"))

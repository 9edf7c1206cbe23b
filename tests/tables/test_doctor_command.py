"""`backsight doctor` says what is there, how to get what is not, and fails only for what is broken."""

from __future__ import annotations

import importlib
import json
import platform
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backsight.cli import main
from backsight.extras import PACKAGES, Package, needed

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

THERE = Package("there", "there-it-is", "view", "something that is there")
MISSING = Package("missing_here", "missing-here", "plot", "something that is not")
BROKEN = Package("broken_here", "broken-here", None, "something that is broken")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    (tmp_path / "there.py").write_text("print('hello')\n")
    (tmp_path / "broken_here.py").write_text("import there\nraise OSError('libfoo.so.1: no such file')\n")
    for name, version in (("there_it_is", "1.2.3"), ("broken_here", "0.4")):
        (tmp_path / f"{name}-{version}.dist-info").mkdir()
        text = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (tmp_path / f"{name}-{version}.dist-info" / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    def choose(*chosen):
        monkeypatch.setattr("backsight.tables.doctor.PACKAGES", chosen)

    yield choose
    for name in ("there", "broken_here"):
        sys.modules.pop(name, None)


def rows(text):
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if line.strip()}


def test_what_is_there_has_a_version_and_what_is_not_a_command(packages, capsys):
    packages(THERE, MISSING, replace(MISSING, module="also_missing"))
    assert main(["doctor", "--imports"]) == 0
    said = capsys.readouterr().out
    found = rows(said)
    assert found["Python"].startswith(f"ok {platform.python_version()}")
    assert found["torch"] == f"ok {torch.__version__} needed for everything"
    assert found["there"] == "ok 1.2.3 something that is there"
    assert said.splitlines()[0].split(maxsplit=3) == ["part", "state", "version", "about"]
    assert found["missing_here"] == "missing something that is not"
    assert said.endswith(
        '\nnot installed:\n  pip install "backsight[plot]"   # missing_here, also_missing\n\nNothing is broken.\n'
    )
    assert "hello" not in said


def test_what_is_broken_is_told_with_the_reason_and_the_exit_status_says_so(packages, capsys):
    packages(BROKEN, THERE)
    assert main(["doctor", "--imports"]) == 1
    said = capsys.readouterr().out
    assert rows(said)["there"].startswith("ok 1.2.3")
    assert "broken_here  broken  0.4" in said
    assert said.endswith(
        "\ninstalled, but import fails:\n"
        "  broken_here: OSError: libfoo.so.1: no such file\n"
        "  pip install --force-reinstall broken-here\n"
    )


def test_a_command_that_names_the_package_has_no_remark(packages, capsys):
    packages(replace(MISSING, module="cairosvg", distribution="cairosvg", extra=None))
    assert main(["doctor"]) == 0
    assert "\n  pip install cairosvg\n" in capsys.readouterr().out


def test_that_there_is_a_kernel_does_not_say_what_would_be_without(packages, monkeypatch, capsys):
    packages()
    name = "backsight.recording.statistics._kernel"
    monkeypatch.setattr("backsight.tables.doctor.find_spec", lambda asked: object())
    monkeypatch.setitem(sys.modules, name, object())
    assert main(["doctor"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "C kernel ok fast statistics of recordings " in said and "slower" not in said
    assert re.search(r" \d+ features of backsight need internals of PyTorch; \S+ (has all of them|lacks th)", said)


def test_json_has_the_same_as_plain_data(packages, capsys):
    packages(THERE, MISSING)
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    parts = {part["name"]: part for part in told["parts"]}
    assert parts["there"] == {
        "name": "there",
        "state": "ok",
        "version": "1.2.3",
        "purpose": "something that is there",
        "fix": "",
        "why": "",
    }
    assert parts["missing_here"]["state"] == "missing"
    assert parts["C kernel"]["state"] in ("ok", "missing")


@pytest.mark.parametrize("state, finder", [("missing", None), ("broken", object())])
def test_the_kernel_is_missing_or_broken_and_the_program_goes_on_without(packages, monkeypatch, capsys, state, finder):
    packages()
    name = "backsight.recording.statistics._kernel"
    monkeypatch.setattr("backsight.tables.doctor.find_spec", lambda asked: finder if asked == name else None)
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["doctor", "--imports"]) == (state == "broken")
    said = capsys.readouterr().out
    assert f"kernel {state} fast statistics of recordings; without it" in " ".join(said.split())
    assert "\n  pip install --force-reinstall --no-deps backsight" in said


def test_a_package_that_an_integration_needs_is_named_with_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "lightning.pytorch", raising=False)
    monkeypatch.setitem(sys.modules, "lightning", None)
    with pytest.raises(ImportError, match=r'^This needs lightning, which is not installed: pip install "backsight\[l'):
        needed("lightning.pytorch")


def test_a_package_that_is_there_and_lacks_one_of_its_own_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "mlflow.py").write_text("import sqlalchemy_that_is_not_there\n")
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="No module named 'sqlalchemy_that_is_not_there'"):
        needed("mlflow")
    sys.modules.pop("mlflow", None)


@pytest.mark.parametrize("package", [each for each in PACKAGES if each.extra], ids=lambda package: package.module)
def test_the_extra_that_is_named_brings_the_package(package):
    found = re.search(rf"^{package.extra} = (\[.*?\])", PROJECT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    assert f'"{package.distribution}>=' in found[1]


def test_optional_packages_are_not_imported_unless_that_is_asked_for(packages, capsys):
    packages(BROKEN, THERE)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert rows(said)["there"].startswith("ok 1.2.3")
    assert rows(said)["broken_here"].startswith("ok 0.4")
    assert said.endswith(
        "Nothing is broken. Optional packages were not imported: `backsight doctor --imports` tries each.\n"
    )
    assert "there" not in sys.modules

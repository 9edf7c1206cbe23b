"""The programs of bench/programs.py: what their table promises, and how two runs of one are compared."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

BENCH = Path(__file__).parent.parent / "bench"


def _module(file: Path) -> Any:
    """Import a file under a name of its own: the pages have a `programs` too."""
    spec = importlib.util.spec_from_file_location(f"bench_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(BENCH))  # for what it imports itself
programs = _module(BENCH / "programs.py")
digest = _module(BENCH / "programs" / "_digest.py").digest

SCRIPTS = sorted(file.stem for file in programs.SCRIPTS.glob("[!_]*.py"))
RAN = programs.Ran(0, "loss 1.0", "f00", (), "", (), 1.0)


def test_every_script_has_its_packages_and_there_are_enough() -> None:
    assert sorted(programs.PACKAGES) == SCRIPTS
    assert len(SCRIPTS) >= 40
    assert len({packages[0] for packages in programs.PACKAGES.values()}) >= 25


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_trains_and_ends_with_its_weights(name: str) -> None:
    tree = ast.parse((programs.SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))
    assert programs.purpose(name)
    assert "digest(" in ast.unparse(tree.body[-1])


def test_the_digest_is_of_every_weight() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    before = digest(model)
    assert digest(model) == before
    with torch.no_grad():
        model[1].running_mean[2] += 1e-6
    assert digest(model) != before


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "yes"),
        ({"weights": "bad"}, "! weights under record"),
        ({"printed": "loss 2.0", "status": 1}, "! exit status, output under record"),
        ({"warnings": ("UserWarning: new",)}, "! warnings under record"),
    ],
)
def test_a_program_that_runs_otherwise_is_told(change: dict[str, object], verdict: str) -> None:
    seen = {"python": [RAN], "run": [RAN], "record": [replace(RAN, **change)]}
    assert programs.verdict_on(seen) == verdict


def test_a_program_that_differs_from_itself_blames_nobody() -> None:
    seen = {
        "python": [RAN, replace(RAN, printed="loss 3.0")],
        "run": [replace(RAN, printed="loss 2.0")],
        "record": [RAN],
    }
    assert programs.verdict_on(seen) == "! differs from itself: output"


def test_what_is_said_is_told_once_and_failures_of_ours_too() -> None:
    finding = {"kind": "finding", "code": "BS101", "severity": "note", "title": "w gets no gradient"}
    usual = {"kind": "message", "text": "3 optimizer steps: nothing found", "steps": 3, "audits": 2}
    recorded = {"kind": "message", "text": "3 steps recorded, without inputs of 9 modules: backsight runs show run"}
    nothing = {"kind": "message", "text": "nothing recorded: backsight saw no call of a model and no optimizer step"}
    unseen = {"kind": "message", "text": "0 optimizer steps; no loss was audited (that is ...)", "steps": 0}
    broken = {"kind": "message", "text": "the audit failed: KeyError: 1"}
    while_recorded = (finding, recorded, nothing, broken)
    seen = {"run": [replace(RAN, said=(finding, usual, unseen))], "record": [replace(RAN, said=while_recorded)]}
    assert programs.told(seen) == [
        ("BS101", "note", "w gets no gradient"),
        ("not audited", "note", unseen["text"]),
        ("not recorded", "note", nothing["text"]),
        ("message", "warning", "the audit failed: KeyError: 1"),
    ]


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    seen = {"python": [RAN], "run": [replace(RAN, said=({"kind": "message", "text": "x"},))], "record": [RAN]}
    (tmp_path / "higher_maml.json").write_text(json.dumps(seen, default=vars), encoding="utf-8")
    assert programs._shown(Path("no-python"), "higher_maml", argparse.Namespace(keep=tmp_path)) == seen

"""What is found in trainings that go wrong and raise nothing: with its edits they run, and it is not found again."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest

from backsight.source.edits import Alternative, edited, from_data

sys.path.append(str(Path(__file__).parents[1] / "launch"))
from silent_faults import FAULTS, HEAD
from silent_pieces import written
from surroundings import environment

PROGRAMS = {name: HEAD + text.lstrip("\n") for name, text in written(FAULTS).items()}


def findings(folder: Path, program: str) -> list[dict[str, Any]]:
    """What `backsight run` finds in a program that ends well, notes aside."""
    (folder / "train.py").write_text(program)
    (folder / "found.jsonl").unlink(missing_ok=True)
    command = [sys.executable, "-m", "backsight", "run", "--json-to", "found.jsonl", "train.py"]
    done = fresh.run(command, cwd=folder, env=environment({}), timeout=120, torn_down=False)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, (folder / "found.jsonl").read_text().splitlines())
    return [each for each in lines if each["kind"] == "finding" and each["severity"] != "note"]


def alternatives(finding: dict[str, Any]) -> list[Alternative]:
    return [tuple(map(from_data, edits)) for edits in finding["edits"]]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fault_is_not_found_again_in_a_program_with_the_edits_of_its_fix(tmp_path: Path, name: str) -> None:
    told = findings(tmp_path, PROGRAMS[name])
    assert [each["code"] for each in told] == re.findall(r"BS\d+", name)
    for finding in told:
        for edits in alternatives(finding):
            (program,) = edited(edits, {edit.file: PROGRAMS[name] for edit in edits}).values()
            codes = [each["code"] for each in findings(tmp_path, program)]
            assert finding["code"] not in codes, program

"""The workflows of CI can be read, and what they run is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="THE WORKFLOWS ARE NOT TESTED: pip install '.[docs]'")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, str]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_there_is_one_for_each_change_and_one_for_all_versions():
    assert [workflow.stem for workflow in WORKFLOWS] == ["ci", "matrix"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_each_step_runs_a_command_or_an_action_of_a_version_and_each_file_is_there(workflow):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = []
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+", step.get("uses", "some/action@v1"))
        made += re.findall(r"^make (\w+)", step.get("run", ""), re.MULTILINE)
        for file in re.findall(r"^python (\S+\.py)", step.get("run", ""), re.MULTILINE):
            assert (ROOT / file).is_file()
    assert made and set(made) <= set(targets)


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
@pytest.mark.parametrize("asked", ["", "2.15.0"])
def test_the_matrix_is_every_pytorch_on_one_python_and_the_newest_on_every_python(asked, tmp_path):
    (script,) = [step["run"] for step in steps(ROOT / ".github/workflows/matrix.yml") if step.get("id") == "choose"]
    out = tmp_path / "out"
    around = os.environ | {"TORCH": asked, "PYTHON": "3.12", "GITHUB_OUTPUT": str(out)}
    subprocess.run(["bash", "-ec", script.replace("python3", sys.executable)], env=around, check=True)
    name, _, value = out.read_text(encoding="utf-8").strip().partition("=")
    chosen = {(each["torch"], each["python"]) for each in json.loads(value)}
    assert name == "include"
    if asked:
        assert chosen == {("2.15.0", "3.12")}
        return
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pythons = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
    assert {python for torch, python in chosen if torch == "newest"} == set(pythons)
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', project)
    assert (f"{oldest}.0", "3.11") in chosen

"""The workflows of CI can be read, what they run is there, and a release is what its tag says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import backsight

yaml = pytest.importorskip("yaml", reason="THE WORKFLOWS ARE NOT TESTED: pip install '.[docs]'")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "packaging"))

from notes import notes  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def _pythons() -> list[str]:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r"Programming Language :: Python :: (3\.\d+)", project)


def steps(workflow: Path) -> list[dict[str, str]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_there_is_one_for_each_change_the_site_all_versions_and_releases():
    assert [workflow.stem for workflow in WORKFLOWS] == ["ci", "docs", "matrix", "release"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_each_step_runs_a_command_or_a_pinned_action_and_each_file_is_there(workflow):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = []
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", step.get("uses", f"some/action@{'0' * 40}"))
        made += re.findall(r"^make (\w+)", step.get("run", ""), re.MULTILINE)
        for file in re.findall(r"^python (\S+\.py)", step.get("run", ""), re.MULTILINE):
            assert (ROOT / file).is_file()
    assert set(made) <= set(targets)


def test_an_action_is_of_one_version_everywhere_and_says_which():
    pinned = [line for file in WORKFLOWS for line in re.findall(r"uses: (.*)", file.read_text(encoding="utf-8"))]
    assert all(re.fullmatch(r"[\w/-]+@\w+ # v\d+\.\d+\.\d+", line) for line in pinned)
    assert len({line.partition("@")[0] for line in pinned}) == len(set(pinned))


def test_nothing_is_published_but_of_a_tag_and_only_that_job_can_prove_who_it_is():
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    jobs, on = release["jobs"], release[True]  # YAML's on is true
    assert on["push"] == {"tags": ["v*"]} and release["permissions"] == {"contents": "read"}
    assert jobs["publish"]["if"] == "github.event_name == 'push'" and jobs["publish"]["needs"] == ["sdist", "wheels"]
    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {"publish"}
    assert jobs["release"]["needs"] == "publish"


def test_what_a_wheel_is_tried_with_is_there_and_every_python_is_tried():
    settings = re.search(
        r"\[tool\.cibuildwheel\].*?\n\n", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL
    )
    assert settings is not None
    (command,) = re.findall(r"python \{project\}/(\S+)", settings[0])
    assert (ROOT / command).is_file()
    assert [f"3.{minor}" for minor in re.findall(r"cp3(\d+)-", settings[0])] == _pythons()


def test_what_is_checked_before_a_commit_is_of_the_versions_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    asked = {hook["repo"].rsplit("/", 1)[1].removesuffix("-pre-commit"): hook["rev"] for hook in hooks}
    constraints = dict(
        re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert asked == {tool: f"v{constraints[tool]}" for tool in ("ruff", "zizmor")}


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == backsight.__version__


def _tree(root: Path, version: str, changelog: str, cited: str | None = None) -> Path:
    (root / "src/backsight").mkdir(parents=True)
    (root / "src/backsight/_version.py").write_text(f'__version__ = "{version}"\n')
    (root / "CITATION.cff").write_text(f"type: software\nversion: {cited or version}\nlicense: Apache-2.0\n")
    (root / "CHANGELOG.md").write_text(changelog)
    return root


CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-31

### Added

- New.

## [0.1.0] - 2026-12-01

- Old.
"""


def test_a_release_has_the_section_of_its_version(tmp_path):
    assert notes("v0.2.0", _tree(tmp_path, "0.2.0", CHANGELOG)) == "### Added\n\n- New."


@pytest.mark.parametrize(
    ("tag", "version", "cited", "why"),
    [
        ("v0.2.1", "0.2.0", None, "the tag is v0.2.1, and src/backsight/_version.py says 0.2.0"),
        ("0.2.0", "0.2.0", None, "the tag is 0.2.0, and"),
        ("v0.2.0", "0.2.0", "0.1.0", "CITATION.cff is not of version 0.2.0"),
        ("v0.3.0", "0.3.0", None, "CHANGELOG.md has no section"),
    ],
)
def test_a_tag_that_is_not_what_is_there_is_refused(tag, version, cited, why, tmp_path):
    with pytest.raises(ValueError, match=re.escape(why)):
        notes(tag, _tree(tmp_path, version, CHANGELOG, cited))


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
    assert {python for torch, python in chosen if torch == "newest"} == set(_pythons())
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', project)
    assert (f"{oldest}.0", "3.11") in chosen


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_there_are_as_many_test_workers_however_many_threads_each_has() -> None:
    def workers(**threads: str) -> list[str]:
        env = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "JOBS")}
        said = subprocess.run(["make", "-n", "test"], cwd=ROOT, env=env | threads, capture_output=True, text=True)
        return re.findall(r"pytest -n (\d+)", said.stdout)

    assert workers(OMP_NUM_THREADS="1") == workers() != []

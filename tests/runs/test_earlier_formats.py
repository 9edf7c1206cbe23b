"""What earlier releases have recorded is read as they read it: a small recording of each version of the format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from backsight.runs.places import VERSION

RECORDINGS = Path(__file__).parent / "recordings"
sys.path.insert(0, str(RECORDINGS))

from make import facts  # noqa: E402  # beside the recordings, so that any release can run it

RUNS = sorted(path.parent for path in RECORDINGS.glob("*/*/rank-00000"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recording_of_an_earlier_release_reads_as_it_did(path: Path) -> None:
    written = json.loads((path.parent / "facts.json").read_text(encoding="ascii"))[path.name]
    assert json.loads(json.dumps(facts(path))) == written


def test_every_version_of_the_format_is_among_them() -> None:
    held = {int(path.parent.name.split("-")[1]) for path in RUNS}
    assert held == set(range(1, VERSION + 1))
    assert {path.name for path in RUNS} >= {"trained", "closed", "killed"}

"""A run of a million steps is listed, shown, audited and drawn in the memory of a small machine."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from backsight.runs import STATISTICS, RunWriter

STEPS, TENSORS, AT_ONCE = 1_000_000, 4, 2_000

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "runs"
    with RunWriter(path / "long") as writer:
        kinds = ("grad", "weight", "output", "grad")
        tensors = np.tile(
            [writer.tensor(f"fc{k}.weight", kind, f"fc{k}", (8,)) for k, kind in enumerate(kinds)], AT_ONCE
        )
        for start in range(0, STEPS, AT_ONCE):
            steps = np.repeat(np.arange(start, start + AT_ONCE), TENSORS)
            rows = np.zeros(len(steps), STATISTICS)
            rows["count"], rows["mean"], rows["m2"] = 8, steps / STEPS, 1.0
            rows["min"], rows["max"] = -1, np.random.default_rng(start).random(len(steps))
            writer.append(steps, tensors, rows)
            writer.flush()
        for step in range(0, STEPS, 10):
            writer.mark(step, loss=1 / (step + 1))
    return path


ASKED = {
    "listed": "list_runs(str(folder))",
    "shown": "show_run(str(folder / 'long'))",
    "shown at a step": "show_run(str(folder / 'long'), step=1234)",
    "audited": "audit_runs([str(folder / 'long')])",
    "listed in the viewer": "listing_of(Library(folder))",
    "looked at": "[Library(folder).ask('long', each, given) for each in HOMES]",
    "drawn": "open_run(folder / 'long').heatmap('l2', 'grad')",
    "followed": "open_run(folder / 'long').series('fc0.weight', 'mean')",
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_run_of_a_million_steps_needs_little_memory(folder: Path, asked: str) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        import hostile, torch, backsight.viewer, backsight.diagnosis
        from backsight.runs import open_run
        from backsight.tables.commands import audit_runs, list_runs, show_run
        from backsight.viewer.library import Library
        from backsight.viewer.question import HOMES
        from backsight.viewer.server import listing_of
        given = {{"stat": "l2", "kind": "grad", "tensor": "fc0.weight", "last": "900"}}
        folder = Path({str(folder)!r})
        hostile.limited(1.0)
        print({ASKED[asked]})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "unreadable" not in ended.stdout or "'unreadable': []" in ended.stdout

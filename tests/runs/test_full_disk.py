"""A disk that is really full: a small one of memory, in a namespace of its own where that may be made."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import fresh
import pytest

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(12)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(150):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
print(step, sum(float(p.sum()) for p in model.parameters()))
"""


def on_a_disk(size: str, folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run a program that sees a disk of this size at a folder."""
    folder.mkdir()
    mounted = f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, str(folder), *line],
        capture_output=True,
        text=True,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where a disk may be mounted; the test is skipped where none may."""
    try:
        tried = on_a_disk("64k", tmp_path / "tried", "true")
    except OSError:
        pytest.skip("there is no unshare here")
    if tried.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {tried.stderr.strip()}")
    return tmp_path / "disk"


@pytest.fixture(scope="module")
def plain() -> str:
    """What the training prints without a recording."""
    return fresh.run([sys.executable, "-c", TRAIN], check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="a disk is mounted as Linux does it")
@pytest.mark.parametrize("size", ["4k", pytest.param("64k", marks=pytest.mark.long), "256k"])
@pytest.mark.slow
def test_a_training_goes_on_when_the_disk_is_full(disk: Path, tmp_path: Path, size: str, plain: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    python, run = f'"{sys.executable}"', f'"{disk}/run"'
    (tmp_path / "record.sh").write_text(
        f'cd "{tmp_path}"\n'
        f"{python} -m backsight run --record --run {run} train.py > told.txt 2> said.txt\n"
        'echo "status $?"\n'
        f'{python} -m backsight runs "{disk}"\n'
    )
    ended = on_a_disk(size, disk, "sh", str(tmp_path / "record.sh"))
    assert ended.stdout.startswith("status 0\n"), ended.stdout + ended.stderr
    assert (tmp_path / "told.txt").read_text() == plain
    said = (tmp_path / "said.txt").read_text()
    assert "Traceback" not in said + ended.stdout + ended.stderr
    assert said.count("No space left on device") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="a disk is mounted as Linux does it")
def test_what_was_flushed_before_the_disk_was_full_is_read_exactly(disk: Path) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from written import rows_of, wrong_numbers
        from backsight.runs import RunNotWritable, RunWriter, open_run
        path = Path({str(disk)!r}) / "run"
        writer = RunWriter(path)
        ids = [writer.tensor(f"t{{k}}", "weight", f"m{{k}}", (1000,), "float32") for k in range(3)]
        flushed, refused = [], set()
        for step in range(400):
            try:
                writer.append(step, ids, rows_of(step, 3))
                writer.flush()
                flushed.append(step)
            except RunNotWritable as error:
                refused.add(str(error))
        writer.close()
        run = open_run(path)
        assert len(refused) == 1 and "No space left on device" in refused.pop()
        assert 0 < len(flushed) < 400
        assert run.steps.tolist() == flushed
        assert wrong_numbers(run) == 0
        assert (run.damage.blocks, run.damage.torn) == (0, 0)
    """
    ended = on_a_disk("64k", disk, sys.executable, "-c", textwrap.dedent(code))
    assert ended.returncode == 0, ended.stderr

"""Tries the backsight that this Python has installed, as its first user would; nothing else has to be installed.

    python tests/packaging/smoke.py [--demo] [--kernel]

A line for each job that was done. Run by `make package` in an empty environment, by the workflow *release* on each
platform, and by the tests on what they built.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

import backsight as bs

HERE = Path(bs.__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Try an installed backsight.")
    parser.add_argument("--demo", action="store_true", help="also run `backsight demo`")
    parser.add_argument("--kernel", action="store_true", help="fail where the C kernel is not there")
    options = parser.parse_args()
    print(f"backsight {bs.__version__} in {HERE}, PyTorch {torch.__version__}")
    jobs = [metadata, graph, audit, recording, pages, release, command, missing_extras]
    if options.kernel:
        jobs.append(kernel)
    if options.demo:
        jobs.append(demo)
    with tempfile.TemporaryDirectory() as folder:
        for job in jobs:
            print(f"{job.__name__}: {job(Path(folder))}", flush=True)


def metadata(folder: Path) -> str:
    """The version that pip knows is the package's own, and type checkers are told to read it."""
    assert version("backsight") == bs.__version__
    assert (HERE / "py.typed").is_file()
    return "version and py.typed"


def graph(folder: Path) -> str:
    model, loss = _loss()
    found = bs.graph(loss, model=model)
    assert "‹weight›" in str(found)
    return f"{len(found.nodes)} operations, {len(found.leaves)} leaves"


def audit(folder: Path) -> str:
    model, loss = _loss()
    optimizer = torch.optim.SGD([model[0].weight])
    codes = {finding.code for finding in bs.audit(loss, model=model, optimizer=optimizer).findings}
    assert "BS101" in codes, codes
    return "finds a forgotten parameter"


def recording(folder: Path) -> str:
    """Which statistics there are does not depend on whether a compiler was there to build the kernel."""
    from backsight.recording.statistics import native

    model, _ = _loss()
    optimizer = torch.optim.Adam(model.parameters())
    with bs.record(model, optimizer, run=folder / "run"):
        for _ in _steps(model, optimizer, 5):
            pass
    run = bs.open_run(folder / "run")
    assert list(run.steps) == [0, 1, 2, 3, 4]
    assert all(run.series("0.weight", kind="grad", stat="norm").values > 0)
    return f"5 steps by {'PyTorch alone' if native.kernel is None else 'the C kernel'}"


def kernel(folder: Path) -> str:
    """It was built and can be loaded; where there is no compiler, a wheel is made without it and nothing fails."""
    from backsight.recording.statistics import native

    assert native.kernel is not None, "the wheel has no C kernel, or one that cannot be loaded"
    return "the C kernel is there"


def pages(folder: Path) -> str:
    """Each page carries its style and its script, which have to be in the package."""
    _, loss = _loss()
    for text in (bs.graph(loss).to_html(), bs.walk(loss).to_html(), _report(folder)):
        assert "<style>" in text and "<script" in text and len(text) > 20_000
    return "graph, walk, report"


def release(folder: Path) -> str:
    model = _loss()[0]  # its loss would keep the memory of weights in use
    optimizer = torch.optim.Adam(model.parameters())
    before = [parameter.clone() for parameter in model.parameters()]
    released = bs.release(optimizer, bucket=0)
    for _ in _steps(model, optimizer, 1):
        pass
    assert not any(map(torch.equal, before, model.parameters()))
    assert 0 < released.peak_gradient_bytes < sum(each.numel() * each.element_size() for each in before)
    return "stepped inside of backward"


def command(folder: Path) -> str:
    """The command that was installed is the one of the package, and explains a script that fails."""
    (installed,) = entry_points(group="console_scripts", name="backsight")
    assert installed.load().__module__ == "backsight.cli"
    failing = HERE / "demo" / "01_second_backward_rnn.py"
    ended = subprocess.run(
        [sys.executable, "-m", "backsight", "run", failing], cwd=folder, capture_output=True, text=True
    )
    assert ended.returncode == 1 and "BS201" in ended.stderr, ended.stderr
    return "explains BS201"


def missing_extras(folder: Path) -> str:
    """What needs an extra that is not there says which."""
    from backsight.viewer.serving import serve

    run, asks = bs.open_run(folder / "run"), []
    uses: list[tuple[str, str, Callable[[], object]]] = [
        ("pandas", "runs", run.frame),
        ("matplotlib", "plot", run.plot_heatmap),
        ("starlette", "view", lambda: serve(folder)),
    ]
    for module, extra, use in uses:
        if find_spec(module) is None:
            asks.append(extra)
            try:
                use()
            except ImportError as error:
                assert f"backsight[{extra}]" in str(error), error
            else:
                raise AssertionError(f"{module} is missing, and nothing was said")
    return f"asks for {', '.join(asks)}" if asks else "all are there"


def demo(folder: Path) -> str:
    """It is whole, without scikit-learn: it says itself which act was not."""
    command = [sys.executable, "-m", "backsight", "demo", "--no-open"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return "every act shows what it is there for"


def _loss() -> tuple[nn.Sequential, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return model, model(torch.randn(16, 4)).square().mean()


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> Iterator[None]:
    for _ in range(count):
        model(torch.randn(16, 4)).square().mean().backward()
        yield
        optimizer.step()
        optimizer.zero_grad()


def _report(folder: Path) -> str:
    return bs.open_run(folder / "run").to_report(folder / "run.html").read_text(encoding="utf-8")


if __name__ == "__main__":
    main()

"""Beside compiled modules: nothing of ours is compiled with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import backsight as bs

SOURCE = str(Path(bs.__file__).parent)


@contextlib.contextmanager
def first_steps() -> Iterator[None]:
    from backsight.launch.first_steps import FirstSteps

    steps = FirstSteps()
    try:
        yield
    finally:
        steps.stop()


OBSERVERS: dict[str, Callable[[nn.Module, torch.optim.Optimizer, Path], Any]] = {
    "record": bs.record,
    "calls": lambda *_: bs.watch(),
    "lines": lambda *_: bs.watch(level="lines"),
    "exact": lambda *_: bs.watch(level="exact"),
    "nonfinite": lambda *_: bs.watch(nonfinite=True),
    "run": lambda *_: first_steps(),
    "memory": lambda model, optimizer, _: bs.measure_memory(model, optimizer),
    "profile": lambda model, *_: bs.profile(model),
}


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files and names of the functions that the compiler is offered."""
    from torch._dynamo.convert_frame import ConvertFrame

    torch._dynamo.reset()
    found: list[str] = []
    convert = ConvertFrame.__call__

    def noting(self: Any, frame: Any, *given: Any, **named: Any) -> Any:
        found.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        return convert(self, frame, *given, **named)

    monkeypatch.setattr(ConvertFrame, "__call__", noting)
    yield found
    torch._dynamo.reset()


@pytest.mark.parametrize("observer", OBSERVERS)
def test_of_a_module_of_pytorch_that_is_compiled_the_hooks_are_not(
    observer: str, offered: list[str], tmp_path: Path
) -> None:
    """PyTorch compiles nothing of an `nn.Sequential`, and calls all hooks with the compiler on."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.compile(backend="eager")
    with OBSERVERS[observer](model, optimizer, tmp_path / "run"):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert not [each for each in offered if each.startswith(SOURCE)]

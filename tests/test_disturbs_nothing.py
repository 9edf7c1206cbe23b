"""Every feature against every promise: a training is with it what it is without it.

A feature is a context around the training (a watch, a recording, a release), or a look at the loss between forward and
backward (a graph, an audit, a drawing). `FEATURES` has them all, and a new one gets every test below by a line.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import fresh
import numpy
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import backsight as bs

Look = Callable[[torch.Tensor], object]
Feature = Callable[["Training", Path], AbstractContextManager[Look]]


class Hostile:
    """What a program may hold: to look at it, beyond its type, ends the test."""

    def refuse(self, *given: Any) -> Any:
        raise SystemError("an object of the program was asked")

    __getattribute__ = __repr__ = __eq__ = __bool__ = __len__ = __iter__ = __call__ = refuse  # type: ignore[assignment]

    def __hash__(self) -> int:
        raise SystemError("an object of the program was hashed")


class Training:
    """A small model with state of all kinds, its optimizer, and a loop that asks `look` about each loss."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(8), nn.Linear(8, 3)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.data = torch.randn(5, 6), torch.tensor([0, 2, 1, 1, 0])
        self.beside = [Hostile(), {1: Hostile()}]
        self.losses: list[float] = []

    def step(self, look: Look) -> None:
        hostile = Hostile()  # noqa: F841  # a local of the loop
        self.optimizer.zero_grad()
        x, y = self.data
        loss = nn.functional.cross_entropy(self.model(x), y)
        look(loss)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def bits(self) -> list[torch.Tensor]:
        """All that a step has left behind: weights, buffers, gradients, the optimizer's state, and the next draws."""
        state = [value for held in self.optimizer.state.values() for value in held.values()]
        return [
            *(tensor.clone() for tensor in self.model.state_dict().values()),
            *(value.clone() for value in state),
            torch.tensor(self.losses),
            torch.rand(4),
            torch.tensor([random.random(), float(numpy.random.rand())]),
        ]


@contextlib.contextmanager
def nothing(training: Training, folder: Path) -> Iterator[Look]:
    yield lambda loss: None


def looking(look: Look) -> Feature:
    @contextlib.contextmanager
    def around(training: Training, folder: Path) -> Iterator[Look]:
        yield look

    return around


def inside(begin: Callable[[Training, Path], AbstractContextManager[Any]]) -> Feature:
    @contextlib.contextmanager
    def around(training: Training, folder: Path) -> Iterator[Look]:
        with begin(training, folder):
            yield lambda loss: None

    return around


@contextlib.contextmanager
def _released(training: Training, folder: Path) -> Iterator[Look]:
    released = bs.release(training.optimizer)
    try:
        yield lambda loss: None
    finally:
        released.remove()


FORETOLD = nn.Linear(3, 1)

FEATURES: dict[str, Feature] = {
    "graph": looking(lambda loss: str(bs.graph(loss))),
    "drawing": looking(lambda loss: bs.graph(loss).to_html()),
    "name": looking(lambda loss: bs.name(loss).text),
    "audit": looking(lambda loss: str(bs.audit(loss))),
    "graphs": looking(lambda loss: str(bs.graphs())),
    "verify_graph": looking(lambda loss: str(bs.verify_graph(loss))),
    "walk": looking(lambda loss: bs.walk(loss).run().to_html()),
    "forecast": looking(lambda loss: str(bs.forecast(FORETOLD, torch.ones(1, 3)))),
    "verify": looking(lambda loss: str(bs.verify(torch.sin, torch.ones(3, requires_grad=True), seed=0))),
    "watch(calls)": inside(lambda training, folder: bs.watch(level="calls")),
    "watch(lines)": inside(lambda training, folder: bs.watch(level="lines")),
    "watch(exact)": inside(lambda training, folder: bs.watch(level="exact")),
    "watch(nonfinite)": inside(lambda training, folder: bs.watch(level="exact", nonfinite=True)),
    "explaining": inside(lambda training, folder: bs.explaining()),
    "profile": inside(lambda training, folder: bs.profile()),
    "measure_memory": inside(lambda training, folder: bs.measure_memory(model=training.model)),
    "record": inside(lambda training, folder: bs.record(training.model, training.optimizer, folder / "run")),
    "release": _released,
    "trace": inside(lambda training, folder: bs.trace(folder / "trace", steps=range(100))),
}
AROUND = [name for name in FEATURES if FEATURES[name].__qualname__ != looking(str).__qualname__]
"""Those that are there while the program's own code runs."""


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    kept = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    random.seed(0)
    numpy.random.seed(0)
    yield
    torch.set_rng_state(kept[0])
    random.setstate(kept[1])
    numpy.random.set_state(kept[2])


def trained(feature: Feature, folder: Path, steps: int = 3) -> Training:
    training = Training()
    with feature(training, folder) as look:
        for _ in range(steps):
            training.step(look)
    return training


@pytest.mark.parametrize("name", FEATURES)
def test_every_bit_is_as_without(name: str, tmp_path: Path) -> None:
    expected = trained(nothing, tmp_path).bits()
    random.seed(0)
    numpy.random.seed(0)
    assert all(map(torch.equal, trained(FEATURES[name], tmp_path).bits(), expected))


ONE_PROFILER = {"profile", "measure_memory"}
"""Both need PyTorch's profiler, of which there is one: the second says so."""

PAIRS = [
    pytest.param(outer, inner, marks=[pytest.mark.long] if (i > k) == (i + k) % 2 else [])
    for i, outer in enumerate(AROUND)
    for k, inner in enumerate(AROUND)
    if outer != inner and {outer, inner} != ONE_PROFILER
]
"""`make test` tries each two in one order, each feature outside of some and inside of others."""


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_every_bit_is_as_without_when_two_are_there(outer: str, inner: str, tmp_path: Path) -> None:
    expected = trained(nothing, tmp_path).bits()
    random.seed(0)
    numpy.random.seed(0)

    @contextlib.contextmanager
    def both(training: Training, folder: Path) -> Iterator[Look]:
        with FEATURES[outer](training, folder / "outer"), FEATURES[inner](training, folder / "inner") as look:
            yield look

    assert all(map(torch.equal, trained(both, tmp_path).bits(), expected))


# ---- what is around a training


def _members(owner: Any) -> dict[str, int]:
    return {name: id(value) for name, value in vars(owner).items() if not name.startswith("__")}


def _tables() -> dict[str, list[Any]]:
    held = vars(nn.modules.module)
    tables = {name: value for name, value in held.items() if name.startswith("_global_") and isinstance(value, dict)}
    optim = vars(importlib.import_module("torch.optim.optimizer"))
    tables |= {name: value for name, value in optim.items() if name.startswith("_global_") and isinstance(value, dict)}
    return {name: list(value) for name, value in tables.items()}


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "what PyTorch offers": lambda: {
        owner.__name__: _members(owner)
        for owner in (torch.Tensor, torch.autograd, nn.Module, torch.optim.Optimizer, torch.autograd.Function)
    },
    "functions of torch": lambda: {name: id(value) for name, value in vars(torch).items() if callable(value)},
    "global hooks": _tables,
    "modes": lambda: (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch._C._len_torch_function_stack(),
        len(_get_current_dispatch_mode_stack()),
        torch._C._autograd._saved_tensors_hooks_is_enabled(),
        torch._C._autograd._top_saved_tensors_default_hooks(False),
    ),
    "the interpreter": lambda: (
        *(
            sys.excepthook,
            sys.unraisablehook,
            sys.displayhook,
            sys.gettrace(),
            sys.getprofile(),
            sys.stdout,
            sys.stderr,
        ),
        *(threading.excepthook, threading.gettrace(), threading.getprofile(), sys.getrecursionlimit()),
        *(sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), list(sys.path), list(sys.meta_path)),
        *(sys.path_hooks[:], os.getcwd(), dict(os.environ), {s: signal.getsignal(s) for s in signal.valid_signals()}),
    ),
    "warnings": lambda: (list(warnings.filters), warnings.showwarning, warnings.warn, warnings.catch_warnings),
    "threads": lambda: {thread.name for thread in threading.enumerate() if thread.is_alive()},
}


@pytest.mark.parametrize("name", FEATURES)
def test_the_surroundings_are_as_before(name: str, tmp_path: Path) -> None:
    trained(FEATURES[name], tmp_path / "once")  # what is imported on first use, by us or by PyTorch, is there then
    before = {part: told() for part, told in SURROUNDINGS.items()}
    trained(FEATURES[name], tmp_path / "again")
    for part, told in SURROUNDINGS.items():
        assert told() == before[part], part


@pytest.mark.parametrize("name", FEATURES)
def test_the_model_and_the_optimizer_have_no_more_on_them(name: str, tmp_path: Path) -> None:
    def worn(training: Training) -> list[Any]:
        modules = [(sorted(vars(m)), {k: len(v) for k, v in vars(m).items() if k.endswith("hooks")}) for m in worn_by]
        of_optimizer = {k: len(v) for k, v in vars(training.optimizer).items() if k.endswith("hooks")}
        parameters = list(training.model.parameters())
        on_tensors = [(p._backward_hooks or None, p._post_accumulate_grad_hooks or None) for p in parameters]
        return [
            modules,
            sorted(vars(training.optimizer)),
            of_optimizer,
            on_tensors,
            [sorted(vars(p)) for p in parameters],
        ]

    bare = trained(nothing, tmp_path)
    worn_by = list(bare.model.modules())
    expected = worn(bare)
    training = trained(FEATURES[name], tmp_path)
    worn_by = list(training.model.modules())
    assert worn(training) == expected


EACH = """
import pathlib, sys, tempfile, warnings
sys.path.insert(0, sys.argv[1])
from test_disturbs_nothing import FEATURES, trained
warnings.simplefilter("error")
for name, feature in FEATURES.items():
    for stream in (sys.stdout, sys.stderr):
        print(name, file=stream, flush=True)
    trained(feature, pathlib.Path(tempfile.mkdtemp(dir=".")))
"""


def test_nothing_is_printed_and_nothing_warned_of(tmp_path: Path) -> None:
    # In a fresh process: where somebody has used PyTorch's profiler before us it speaks to stderr from then on.
    program = [sys.executable, "-c", EACH, str(Path(__file__).parent)]
    done = fresh.run(program, cwd=tmp_path)
    assert (done.stdout.splitlines(), done.stderr.splitlines()) == (list(FEATURES), list(FEATURES))
    assert done.returncode == 0


@pytest.mark.parametrize("name", FEATURES)
def test_nothing_is_kept_alive(name: str, tmp_path: Path) -> None:
    training = Training()
    losses: list[weakref.ref[torch.Tensor]] = []

    def noted(look: Look, loss: torch.Tensor) -> None:
        losses.append(weakref.ref(loss))
        look(loss)

    with FEATURES[name](training, tmp_path) as look:
        for _ in range(2):
            training.step(partial(noted, look))
        gc.collect()
        assert [ref for ref in losses if ref() is not None] == []
    held = [weakref.ref(each) for each in (training.model, training.optimizer, *training.model.parameters())]
    del training, look
    gc.collect()
    assert [ref for ref in held if ref() is not None] == []


class Told(Exception):
    """An exception of the program's own."""


@pytest.mark.parametrize("name", AROUND)
def test_an_exception_of_the_program_comes_through_as_it_is(name: str, tmp_path: Path) -> None:
    told = Told("of the program")

    def fails(loss: torch.Tensor) -> None:
        raise told

    trained(FEATURES[name], tmp_path / "once")
    before = {part: of() for part, of in SURROUNDINGS.items()}
    training = Training()
    with pytest.raises(Told) as raised, FEATURES[name](training, tmp_path / "run"):
        training.step(fails)
    assert raised.value is told and told.__cause__ is None and told.__context__ is None
    assert getattr(told, "__notes__", []) == []
    for part, of in SURROUNDINGS.items():
        assert of() == before[part], part


# ---- the program's own modes, hooks and threads


class Functions(TorchFunctionMode):
    """A mode of the program's, which notes what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    """A mode of the program's, which notes what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


COMPUTING = {"verify", "verify_graph", "walk", "forecast", "release"}
"""Those that compute what they are asked for: a mode that is on where they are called sees that, as of any call."""


@pytest.mark.parametrize("mode", [Functions, Operations])
@pytest.mark.parametrize("name", [name for name in FEATURES if name not in COMPUTING])
def test_a_mode_of_the_program_sees_what_it_saw(name: str, mode: Any, tmp_path: Path) -> None:
    if name == "measure_memory" and mode is Functions:
        pytest.skip("PyTorch's own profiler asks modules and optimizers for their parameters and gradients")

    def seen(feature: Feature, folder: Path) -> list[str]:
        with mode() as own:
            trained(feature, folder)
        return list(own.seen)

    trained(FEATURES[name], tmp_path / "once")  # what is imported on first use has asked PyTorch by then
    assert seen(FEATURES[name], tmp_path) == seen(nothing, tmp_path)


@pytest.mark.parametrize("name", FEATURES)
def test_hooks_of_the_program_are_called_as_often_and_with_the_same(name: str, tmp_path: Path) -> None:
    def heard(feature: Feature, folder: Path) -> list[Any]:
        training, told = Training(), []
        first, last = training.model[0], training.model[-1]
        first.register_forward_pre_hook(lambda m, args: told.append("before"))
        last.register_forward_hook(lambda m, args, output: told.append(("after", tuple(output.shape))))
        last.register_full_backward_hook(lambda m, into, out: told.append(("backward", out[0].sum().item())))
        last.weight.register_hook(lambda grad: told.append(("weight", grad.sum().item())))
        last.bias.register_post_accumulate_grad_hook(lambda p: told.append(("accumulated", p.grad.sum().item())))
        training.optimizer.register_step_pre_hook(lambda *given: told.append("stepping"))
        training.optimizer.register_step_post_hook(lambda *given: told.append("stepped"))
        with feature(training, folder) as look:
            for _ in range(2):
                training.step(look)
        return told

    if name == "release":
        pytest.skip("gradients of released parameters are there for a moment only: it has tests of its own")
    assert heard(FEATURES[name], tmp_path) == heard(nothing, tmp_path)


@pytest.mark.parametrize("name", FEATURES)
def test_a_training_in_a_thread_is_the_same(name: str, tmp_path: Path) -> None:
    expected = [*trained(nothing, tmp_path).model.state_dict().values()]
    done: list[Training] = []
    thread = threading.Thread(target=lambda: done.append(trained(FEATURES[name], tmp_path)))
    thread.start()
    thread.join()
    assert all(map(torch.equal, done[0].model.state_dict().values(), expected))


def test_the_matrix_has_every_feature() -> None:
    looks = {name.partition("(")[0] for name in FEATURES}
    called = {name for name in bs.__all__ if name[0].islower() and name not in ("testing",)}
    elsewhere = {
        "explain": "it runs once a program has failed",
        "names": "many at once of `name`",
        "profile_backward": "it stands for loss.backward()",
        "open_run": "it reads files",
        "open_trace": "it reads files",
        "diff": "it reads files",
        "runs_in": "it reads files",
        "view": "it reads files",
        "surrogate": "it notes a function of the program's",
        "verify_second_order": "`verify`, a derivative further",
    }
    assert called - looks == elsewhere.keys()

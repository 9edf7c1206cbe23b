"""What backsight needs of PyTorch's inside: each name is probed once, and says what is lost where a PyTorch lacks it.

A room takes its names in its `_torch.py`. A name that is missing takes away the feature that needs it, and no more:
either something stands in for it, or using it raises `Unavailable`, which says what PyTorch lacks.

```python
number = take("torch._C._autograd._get_sequence_nr", "lines of operations", without=lambda: 0)
```

`missing()` tells `backsight run` and `backsight doctor` what to say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from inspect import unwrap
from types import CodeType
from typing import Any

FEATURES = {
    "lines of operations": "operations are shown without the line and the module that made them",
    "exact watch": "errors are explained from source text and tracebacks, not from what was observed",
    "Functions defined while watched": "on Python 3.12 and later, a Function defined under a watch has no line",
    "NaN origins inside transforms": "NaN origins may be reported inside torch.func transforms",
    "tidy tracebacks": "tracebacks and warnings of a watched program can show frames of backsight",
    "saved tensors": "graphs do not show saved tensors, and in-place errors may be explained without the variable",
    "one saved tensor of several": "if an operation saved several tensors, the modified one is identified by its shape",
    "names from models": "parameters and modules are named by variables, not by their place in a model",
    "names of hooks": "a tensor that only a hook holds has no name",
    "shapes of results": "graphs do not show the shapes of results; walk() and verify_graph() are refused",
    "custom functions": "nodes of custom Functions are not traced to their class and call",
    "calls of backward": "audits and explanations do not know which tensor backward was called on",
    "refused parameters": "an optimizer's error about a non-leaf is explained without the variable",
    "unused parameters under DDP": "DDP's error about unused parameters is explained without their names",
    "functions under vmap": "errors of a function under vmap are explained without the call that maps it",
    "deep graphs": "freeing a graph of more than 40,000 operations in a row can crash the process",
    "tensor subclasses": "a tensor subclass or a mode of the program can see backsight read tensors",
    "compiled functions": "torch.compile may recompile a function while it is watched",
    "traced programs": "programs that are traced or exported can show calls of backsight",
    "version counters": "in-place changes are not noticed",
    "models called by the program": "backsight run --record cannot tell a model from the modules inside it",
    "recorded gradients": "recordings take gradients just before the optimizer steps, not as they arrive",
    "gradients read together": "recordings of many small gradients are slower",
    "recorded arguments by keyword": "recordings omit keyword arguments of modules",
    "calls that FX traces": "recordings count calls that torch.fx traces as calls of the model",
    "modes beside a recording": "a mode of the program can see operations of a recording",
    "recorded steps": "with recordings in several threads, starting or ending one can end another",
    "recorded transforms": "recordings can include tensors inside torch.func transforms",
    "weights of functional calls left out": "recordings can include weights that functional_call has swapped in",
    "recorded layouts": "recordings leave out tensors of special layouts or classes",
    "release": "gradient release is refused",
    "release of clipped gradients": "gradient release refuses a loop that clips gradients",
    "release with a gradient scaler": "gradient release refuses a loop with a GradScaler",
    "profile of other threads": "profile() sees only the thread that starts it and its backward",
    "cheap marks of a profile": "profile() costs more for each module call",
    "other profilers": "profile() ends another profiler that runs, instead of refusing",
    "measured memory": "measure_memory() and forecast() are refused",
    "memory forecast": "forecast() is refused",
    "verify": "verify() and verify_second_order() are refused",
    "verify of torch.library operators": "verify() cannot test operators made with torch.library",
    "verify of recorded graphs": "verify_graph() is refused",
    "verify inside transforms": "verify() can mistake tensors inside torch.func transforms for the program's",
    "walk through checkpoints at once": "walk() recomputes a checkpoint at every saved tensor that it reads",
    "traces": "trace(), diff() of commands and `backsight run --trace` are refused",
    "hooks that zero gradients": "a hook that zeroes a gradient is not named",
    "hooks shown in a walk": "walk() does not show the hooks of leaves",
}
"""What can be lost, and what people then do without."""


class Unavailable(RuntimeError):
    """Something was asked for that needs a part of PyTorch's inside which this version lacks."""


@dataclass(frozen=True)
class Need:
    """A name inside PyTorch that a feature needs.

    path: the name, in full; feature: a key of `FEATURES`; why: how it cannot be reached, empty where it can.
    """

    path: str
    feature: str
    why: str = ""


_needs: dict[tuple[str, str], Need] = {}


def reach(path: str) -> Any:
    """Return what stands at a dotted path; what a class only declares for its instances is its annotation.

    Raises:
        ImportError, AttributeError: if it is not there.
    """
    first, *names = path.split(".")
    found: Any = import_module(first)
    reached = first
    for name in names:
        reached = f"{reached}.{name}"
        try:
            found = getattr(found, name)
        except AttributeError:
            if isinstance(found, type) and name in getattr(found, "__annotations__", {}):
                found = found.__annotations__[name]
            elif hasattr(found, "__path__"):  # a package, of which this may be a module that nobody has imported
                found = import_module(reached)
            else:
                raise
    return found


class _Missing:
    """Stands for what PyTorch lacks: any use raises `Unavailable`."""

    def __init__(self, need: Need):
        self._need = need

    def __call__(self, *given: Any, **named: Any) -> Any:
        raise Unavailable(sentence([self._need]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unavailable(sentence([self._need]))

    def __bool__(self) -> bool:
        return False


_RAISES: Any = object()


def take(path: str, feature: str, *, without: Any = _RAISES, read: Callable[[Any], Any] | None = None) -> Any:
    """Return what stands at a path inside PyTorch; where it is missing, what stands in for it.

    Args:
        path: where it stands, such as `torch._C._autograd._get_sequence_nr`.
        feature: what is lost without it, a key of `FEATURES`.
        without: what to return where it is missing; if not given, something whose use raises `Unavailable`.
        read: what makes of the object there what is needed; it may raise to say that this is not to be had.
    """
    why = ""
    try:
        found = reach(path)
        found = found if read is None else read(found)
    except Exception as failure:  # whatever a later PyTorch puts in its place
        why = f"{type(failure).__name__}: {failure}"
    need = _needs[path, feature] = Need(path, feature, why)
    if not why:
        return found
    return _Missing(need) if without is _RAISES else without


def there(path: str, feature: str) -> bool:
    """Whether PyTorch has what stands at a path, which is read elsewhere, from objects of its class."""
    return take(path, feature, without=None, read=lambda _: True) is not None


def code_of(function: Any) -> CodeType:
    """Return the code of a function written in Python, within its decorators; to be given to `take` as `read`."""
    code = unwrap(function).__code__
    if type(code) is not CodeType:
        raise AttributeError(f"{function!r} has no code")
    return code


def needs() -> tuple[Need, ...]:
    """Return what the rooms that are imported need of PyTorch's inside."""
    return tuple(_needs.values())


def missing() -> tuple[Need, ...]:
    """Return what of that this PyTorch lacks."""
    return tuple(need for need in needs() if need.why)


def require(feature: str) -> None:
    """Refuse what cannot be done without a feature; to be called first, before anything is begun.

    Raises:
        Unavailable: if PyTorch lacks something that this feature needs.
    """
    lacked = [need for need in missing() if need.feature == feature]
    if lacked:
        raise Unavailable(sentence(lacked))


def sentence(lacked: Iterable[Need]) -> str:
    """Say in one sentence what PyTorch lacks, and what is lost by that."""
    lacked = list(lacked)
    version = getattr(sys.modules.get("torch"), "__version__", "")
    features = list(dict.fromkeys(need.feature for need in lacked))
    if len(features) == 1:
        names = ", ".join(dict.fromkeys(need.path for need in lacked))
        return f"PyTorch {version} has no {names}: {FEATURES[features[0]]} (backsight doctor lists what is missing)."
    return (
        f"PyTorch {version} lacks what {len(features)} features of backsight need: {', '.join(features)} "
        "(backsight doctor says what is lost)."
    )

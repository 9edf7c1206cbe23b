"""torchEmber's calls, for notebooks that were written for it: what do the tensors of a model look like, pass by pass?

```python
from backsight.compat.torchember import torchEmber

te = torchEmber(model)
for x in batches:
    model(x).mean().backward()
te.t.df                     # a row for each input, output, weight and gradient of each pass
te.t.latest_df              # the last pass only
model = model.disarm()      # or te.disarm()
```

A row has `shape`, `mean`, `std`, `max` and `min`, or what your own function said; then where it is from: `module` as
`model(AlexNet).features(Sequential).0(Conv2d)`; the time, `ts`; `ttype`, one of `input`, `output`, `weight` and
`weight_grad`; and `tname`, as `x`, `output_0`, `weight_1` (the second parameter of the module), `grad_1`.

What differs from torchEmber 0.0 to 0.2 on purpose:

- PyTorch's hooks are used, and no `forward` is replaced: what is not written in Python works, and `deepcopy`, `pickle`,
  `state_dict` and `torch.compile` of an armed model work. Inside of compiled code nothing is recorded.
- Only the model itself gets an attribute, `disarm`, and only if it has none. It goes when the model is disarmed. A copy
  of an armed model is not recorded, and its `disarm` just returns it.
- Nothing stops the training: a function of yours that fails is dropped, a log that cannot be written disarms, each with
  one `RecordingWarning`. torchEmber raised, or, later, dropped the rows and said nothing.
- Weights and gradients are those of every module, not only of modules without children. They are taken in each pass,
  as torchEmber did first, until `log_model`, `record_weight` or `record_grad` is called: from then on only there, as it
  did later. What these take belongs to the pass before, also in `latest_df`.
- Names of columns and kinds are those of torchEmber's first versions, which wrote `input` and `weight_grad` where later
  ones wrote `input_dt` and `grad`.
- Tensors in tuples, lists, dicts and dataclasses have rows of their own: `hx[0]`, `output_1[0]`, `output_0.logits`.
- `mark` adds columns to one log, where torchEmber began another file.
- Where not every element is finite the four statistics are `nan`, and columns `nans` and `infs` say how many are not.
- Two models armed in the same second have a log each. There is no `module_tracker`, no `modules`, and no web page.

A pass waits for its device once, at its end. `backsight.record` never does, and is the one to train with.

Source: https://github.com/raynardj/torchember
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import torch

from backsight.compat.ember_hook import Hook
from backsight.compat.ember_modules import Found, Watched, survey
from backsight.compat.ember_rows import Row, Rows, get_stats, plain
from backsight.compat.ember_tracker import claimed, emberTracker, last_words, spelt
from backsight.recording import in_transform, registered
from backsight.recording.voice import Voice, told
from backsight.tape import in_backward
from backsight.text import printable

__all__ = ["emberTracker", "get_stats", "torchEmber"]

MOST_ROWS, MOST_LOGGED = 1_000, 10_000
"""Rows that wait to be written, and entries of `mt_log`."""

_METRICS = {"in": "input", "out": "output", "weight": "weight", "grad": "weight_grad", "weight_grad": "weight_grad"}
"""What `set_metric` calls each kind of row."""

_is_tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]  # documented all the same


class torchEmber:
    """Records what goes into, out of and on in the modules of a model, from now until it is disarmed.

    ```python
    te = torchEmber(model)
    model(x)
    te.t.latest_df
    ```

    Attributes:
        t: the log, an `emberTracker`.
        mt_log: the modules that the latest pass has entered and left, in order.
        model_name, fname: the model's class, and the name of the log.

    Raises:
        TypeError: if `model` is not an `nn.Module`.
    """

    def __init__(self, model: torch.nn.Module, verbose: bool = False):
        if not issubclass(type(model), torch.nn.Module):
            raise TypeError(f"torchEmber takes an nn.Module, not an object of type {type(model).__qualname__}.")
        if (former := attached(model)) is not None:
            former()
        self._model: Callable[[], torch.nn.Module | None] = weakref.ref(model)
        self._voice = Voice()
        self.model_name = type(model).__name__
        self.fname = spelt(f"{self.model_name}_{datetime.now():%Y%m%d_%H%M%S}")
        self._begin()
        self._written(self._introduce)
        if verbose:
            print(printable(f"{self.model_name} is recorded into {self.t.log_path}"))

    def _begin(self) -> None:
        rows = self._rows = Rows()
        self.t = emberTracker(self.fname, held=rows.taken)
        self.mt_log: list[str] = []
        self._metrics = Metrics(self._voice)
        self._extra: Row = {}
        self._tree: Row = {}
        self._modules: list[Watched] = []
        self._handles: list[Any] = []
        self._disarm = Disarm(self)
        self._in_passes = True
        self._process = os.getpid()

    @property
    def model(self) -> torch.nn.Module | None:
        """The model, which is not kept alive."""
        return self._model()

    def arm(self) -> None:
        """Record from here on."""
        model = self.model
        if model is None or self._handles:
            return
        self._tree, self._modules = survey(model)
        for watched in self._modules:
            watched.recording = self
            module: Any = watched.module()
            enter, leave = Hook(watched.enter, self._failed), Hook(watched.leave, self._failed)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            self._handles.append(module.register_forward_hook(leave, with_kwargs=True))
        self._disarm.attach(model)

    def disarm(self) -> None:
        """Record nothing any more, and leave nothing on the model."""
        self._detach()
        self._written(self.t.flush)

    def rearm(self) -> None:
        """Look at the model anew, after modules were replaced in it, and record from here on."""
        self.disarm()
        self.arm()

    def how_record_in(self, metric: Metric) -> Metric:
        """Record what this function says of inputs, as a decorator: it gets a tensor and returns a dict."""
        return self.set_metric("in")(metric)

    def how_record_out(self, metric: Metric) -> Metric:
        """Record what this function says of outputs, as a decorator."""
        return self.set_metric("out")(metric)

    def how_record_weight(self, metric: Metric) -> Metric:
        """Record what this function says of weights and of their gradients, as a decorator."""
        return self.set_metric("grad")(self.set_metric("weight")(metric))

    def set_metric(self, ttype: str) -> Callable[[Metric], Metric]:
        """Record what a function says of tensors of one kind in place of `get_stats`, as a decorator.

        ```python
        @te.set_metric("weight")
        def row_max(weight):
            return {"row_max": [row.max().item() for row in weight]}
        ```

        Raises:
            ValueError: if there is no such kind; they are "in", "out", "weight" and "grad".
        """
        if ttype not in _METRICS:
            raise ValueError(f'there is no kind {ttype!r} of tensor; the kinds are "in", "out", "weight" and "grad".')

        def put(metric: Metric) -> Metric:
            self._metrics.put(_METRICS[ttype], metric)
            return metric

        return put

    def mark(self, **tags: Any) -> None:
        """Add these as columns to the rows to come, until they are marked otherwise: `te.mark(epoch=3)`."""
        self._written(lambda: self.t.mark(**tags))

    def add_extra(self, **tags: Any) -> None:
        """Add these as columns to the rows to come, in place of those that were added last."""
        self._extra = plain(tags)

    def after_train(self) -> None:
        """End what `add_extra` began."""
        self._extra = {}

    def log_model(self) -> None:
        """Record the weights and gradients of the model as they are now, armed or not."""
        self._record_now(values=True, gradients=True)

    def record_weight(self) -> None:
        """Record the weights of the model as they are now."""
        self._record_now(values=True, gradients=False)

    def record_grad(self) -> None:
        """Record the gradients of the model as they are now."""
        self._record_now(values=False, gradients=True)

    def mod_tree(self) -> Row:
        """Return the modules as they are nested: dicts of `name`, `short`, and `children` where there are any."""
        return self._tree

    def __deepcopy__(self, memo: dict[int, Any]) -> torchEmber:
        return self

    def __getstate__(self) -> Row:
        return {"fname": self.fname, "model_name": self.model_name}

    def __setstate__(self, state: Row) -> None:
        """Become what a pickle can hold: the log, to read, and no model."""
        vars(self).update(state)
        self._model, self._voice = lambda: None, Voice()
        self._begin()

    def _introduce(self) -> None:
        self.fname = claimed(self.fname)
        self._begin()
        weakref.finalize(self, last_words, self.t)
        self.arm()
        self.t[f"base_{self.fname}"] = {"start": self.t.ts}
        self.t[f"structure_{self.fname}"] = self.mod_tree()

    def idle(self) -> bool:
        """Whether calls are not the training's but a metric's, a fork's, a recomputation, a transform or a trace."""
        if self._metrics.running or os.getpid() != self._process:
            return True
        return in_backward() or in_transform() or _is_tracing()

    def entered(self, module: Watched) -> None:
        """Called when a module is called; a call of the model begins a pass."""
        if module.root:
            self.mt_log = []
            self.t.begin()
        self._log("enter", module)

    def left(self, module: Watched) -> None:
        """Called when a module has returned; so ends the pass, if it is the model."""
        self._log("exit", module)
        if module.root:
            self.t.refresh(more=True)

    def wants_weights(self) -> bool:
        """Whether passes record weights and gradients: until they are asked for."""
        return self._in_passes

    def record(self, module: Watched, found: list[Found]) -> None:
        """Add a row for each tensor."""
        about = {"module": module.name, "ts": self.t.ts}
        wheres = [{**about, "ttype": kind, "tname": name, **self._extra} for kind, name, _ in found]
        kinds = {kind for kind, *_ in found}
        if kinds <= {"weight", "weight_grad"} and not any(kind in self._metrics for kind in kinds):
            self._rows.note_all([tensor for *_, tensor in found], wheres)
            return
        for (kind, _, tensor), where in zip(found, wheres, strict=True):
            said = self._metrics.ask(kind, tensor)
            if said is not None:
                self._rows.add({**said, **where})
            elif kind in ("input", "output"):
                self._rows.note(tensor, where)
            else:
                self._rows.note_all([tensor], [where])
        if len(self._rows) >= MOST_ROWS:
            self.t.flush()

    def _log(self, what: str, module: Watched) -> None:
        if len(self.mt_log) < MOST_LOGGED:
            self.mt_log.append(f"{what} {module.name}")

    def _record_now(self, *, values: bool, gradients: bool) -> None:
        self._in_passes = False
        if os.getpid() == self._process:
            self._written(lambda: self._take_weights(values, gradients))

    def _take_weights(self, values: bool, gradients: bool) -> None:
        for module in self._modules:
            self.record(module, module.weights(values=values, gradients=gradients))
        self.t.refresh(more=True)

    def _written(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except OSError as failure:
            self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        """Give up: a failure of ours is not a failure of the training."""
        self._detach()
        self._voice.say("ember", f"torchEmber no longer records; training continues: {told(failure)}")

    def _detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        model = self.model
        if model is not None:
            self._disarm.detach(model)


Metric = Callable[[torch.Tensor], Mapping[str, Any]]


class Metrics:
    """A function for each kind of tensor that has one.

    Attributes:
        running: whether one is running: modules that it calls are not part of the training.
    """

    def __init__(self, voice: Voice):
        self.running = False
        self._voice = voice
        self._by_kind: dict[str, Metric] = {}

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_kind

    def put(self, kind: str, metric: Metric) -> None:
        """Apply `metric` to every tensor of this kind from now on."""
        self._by_kind[kind] = metric

    def ask(self, kind: str, tensor: torch.Tensor) -> Row | None:
        """Return what is said of a tensor; None if there is no function for it, or it fails, and is dropped."""
        metric = self._by_kind.get(kind)
        if metric is None:
            return None
        self.running = True
        try:
            with torch.no_grad():
                return plain(metric(tensor.detach()))
        except Exception as failure:  # the user's function, in the middle of the user's training
            self._by_kind.pop(kind, None)
            name = getattr(metric, "__name__", type(metric).__name__)
            self._voice.say(
                f"{kind} {name}", f"the metric {name!r} for {kind!r} failed and is dropped: {told(failure)}"
            )
            return None
        finally:
            self.running = False


class Armed(Protocol):
    """What is to be disarmed."""

    @property
    def model(self) -> torch.nn.Module | None: ...

    def disarm(self) -> None: ...


class Disarm:
    """Disarms, and returns the model."""

    def __init__(self, armed: Armed):
        self._armed = armed

    def __call__(self) -> torch.nn.Module | None:
        self._armed.disarm()
        return self._armed.model

    def __reduce__(self) -> tuple[Any, ...]:
        """Return, for copies and pickles of the model, a call of the standard library that returns that copy.

        A pickle cannot leave out an attribute, and has to load where backsight is not installed.
        """
        return functools.partial, (operator.itemgetter(0), (self._armed.model,))

    def attach(self, model: torch.nn.Module) -> None:
        """Become an attribute of the model, unless it or its class has one of this name."""
        tables = ("_parameters", "_buffers", "_modules")
        known = any("disarm" in registered(model, table) for table in tables)
        if not known and inspect.getattr_static(model, "disarm", None) is None:
            _own(model)["disarm"] = self

    def detach(self, model: torch.nn.Module) -> None:
        """Leave the model."""
        if attached(model) is self:
            del _own(model)["disarm"]


def attached(model: torch.nn.Module) -> Disarm | None:
    """Return what is on the model, if it is ours."""
    found = _own(model).get("disarm")
    return found if type(found) is Disarm else None


def _own(model: torch.nn.Module) -> dict[str, Any]:
    """Return the attributes of the model itself without asking its `__getattr__`."""
    own: dict[str, Any] = object.__getattribute__(model, "__dict__")
    return own

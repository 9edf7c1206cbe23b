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
- Only the model itself gets an attribute, `disarm`, and only if it has none. It goes when the model is disarmed; that of
  a copy just returns the copy.
- Nothing stops the training: a function of yours that fails is dropped, a log that cannot be written disarms, each with
  one `RecordingWarning`. torchEmber raised, or, later, dropped the rows and said nothing.
- Weights and gradients are those of every module, not only of modules without children. They are taken in each pass, as
  torchEmber did first, until `log_model`, `record_weight` or `record_grad` is called: from then on only there, as it did
  later. What these take belongs to the pass before, also in `latest_df`.
- Names of columns and kinds are those of torchEmber's first versions, which wrote `input` and `weight_grad` where later
  ones wrote `input_dt` and `grad`.
- Tensors in tuples, lists, dicts and dataclasses have rows of their own: `hx[0]`, `output_1[0]`, `output_0.logits`.
- `mark` adds columns to one log, where torchEmber began another file.
- `nan` in the statistics means that not all is finite; the columns `nans` and `infs` then say how many are not.
- Two models that are armed in the same second have a log each. There is no `module_tracker`, no `modules` and no web
  page, and nothing is printed unless `verbose`.

For more than a look, see `backsight.record`, which stores a tenth of it a tensor and never waits for a device.

Source: https://github.com/raynardj/torchember
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import torch

from backsight.compat.ember_rows import Row, Rows, get_stats, plain
from backsight.compat.ember_tracker import claimed, emberTracker
from backsight.compat.ember_tree import Place, survey
from backsight.recording._torch import in_backward, in_transform, is_uninitialized, registered
from backsight.recording.hook import Hook
from backsight.recording.nested import Arguments, arguments_of, tensors_in
from backsight.recording.voice import Voice, told

__all__ = ["emberTracker", "get_stats", "torchEmber"]

Metric = Callable[[torch.Tensor], Mapping[str, Any]]

MOST_ROWS = 1000
"""Rows that wait to be written."""

MOST_LOGGED = 10_000
"""Entries of `mt_log`."""

_METRICS = {"in": "input", "out": "output", "weight": "weight", "grad": "weight_grad", "weight_grad": "weight_grad"}
"""What `set_metric` calls each kind of row."""


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
        former = _own(model).get("disarm")
        if type(former) is Disarm:
            former()
        self._model: Callable[[], torch.nn.Module | None] = weakref.ref(model)
        self._voice = Voice()
        self.model_name = type(model).__name__
        self.fname = f"{self.model_name}_{datetime.now():%Y%m%d_%H%M%S}"
        try:
            self.fname = claimed(self.fname)
        except OSError as failure:
            self._begin()
            self._failed(failure)
            return
        self._begin()
        self.arm()
        self.t[f"base_{self.fname}"] = {"start": self.t.ts}
        self.t[f"structure_{self.fname}"] = self.mod_tree()
        if verbose:
            print(f"{self.model_name} is recorded into {self.t.log_path}")

    def _begin(self) -> None:
        rows = self._rows = Rows()
        self.t = emberTracker(self.fname, held=rows.taken)
        self.mt_log: list[str] = []
        self._metrics: dict[str, Metric] = {}
        self._extra: Row = {}
        self._tree: Row = {}
        self._modules: list[_Module] = []
        self._handles: list[Any] = []
        self._disarm = Disarm(self)
        self._asking = False
        self._in_passes = True
        """Whether weights and gradients are taken in passes: until they are asked for."""
        self._process = os.getpid()
        weakref.finalize(self, _last_words, self.t)

    @property
    def model(self) -> torch.nn.Module | None:
        """The model, which is not kept alive."""
        return self._model()

    def arm(self) -> None:
        """Record from here on."""
        model = self.model
        if model is None or self._handles:
            return
        self._tree, places = survey(model)
        self._modules = [_Module(self, place, module is model) for place, module in places]
        for watched, (_, module) in zip(self._modules, places, strict=True):
            enter, leave = Hook(watched.enter, self._failed), Hook(watched.leave, self._failed)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            self._handles.append(module.register_forward_hook(leave, with_kwargs=True))
        if _is_free(model, "disarm"):
            _own(model)["disarm"] = self._disarm

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
            self._metrics[_METRICS[ttype]] = metric
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
        self._record(_Module.weights, _Module.gradients)

    def record_weight(self) -> None:
        """Record the weights of the model as they are now."""
        self._record(_Module.weights)

    def record_grad(self) -> None:
        """Record the gradients of the model as they are now."""
        self._record(_Module.gradients)

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
        self._model, self._voice = _none, Voice()
        self._begin()

    def __repr__(self) -> str:
        return f"<torchEmber {'armed' if self._handles else 'disarmed'}, {self.fname}>"

    def _idle(self) -> bool:
        """Whether calls are none of the training's: of a metric, of a forked process, recomputations, transforms."""
        return self._asking or os.getpid() != self._process or in_backward() or in_transform()

    def _note(self, module: str, ttype: str, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Add a row for each tensor. Parameters and gradients are measured together."""
        found, now = list(named), self.t.ts
        wheres = [{"module": module, "ts": now, "ttype": ttype, "tname": name, **self._extra} for name, _ in found]
        for (_, tensor), where in zip(found, wheres, strict=True):
            said = self._ask(ttype, tensor)
            if said is not None:
                self._rows.add({**said, **where})
            elif ttype in ("input", "output"):
                self._rows.note(tensor, where)
            else:
                self._rows.note_all([tensor], [where])
        if len(self._rows) >= MOST_ROWS:
            self.t.flush()

    def _ask(self, ttype: str, tensor: torch.Tensor) -> Row | None:
        """Return what the user's function says of a tensor; None if there is none, or it fails, and is dropped."""
        metric = self._metrics.get(ttype)
        if metric is None:
            return None
        self._asking = True
        try:
            with torch.no_grad():
                return plain(metric(tensor.detach()))
        except Exception as failure:  # the user's function, in the middle of the user's training
            del self._metrics[ttype]
            name = getattr(metric, "__name__", type(metric).__name__)
            self._voice.say(f"{ttype} {name}", f"the metric {name!r} for {ttype!r} failed and is dropped: {told(failure)}")
            return None
        finally:
            self._asking = False

    def _record(self, *kinds: Callable[[_Module], None]) -> None:
        self._in_passes = False
        for kind in kinds:
            for module in self._modules:
                kind(module)
        self._written(lambda: self.t.refresh(more=True))

    def _written(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except OSError as failure:
            self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        """Give up: a failure of ours is not a failure of the training."""
        self._detach()
        self._voice.say("ember", f"torchEmber records nothing any more, and the training goes on: {told(failure)}")

    def _detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        model = self.model
        if model is not None and _own(model).get("disarm") is self._disarm:
            del _own(model)["disarm"]


class _Module:
    """One module of the model, and what is taken of it."""

    def __init__(self, ember: torchEmber, place: Place, root: bool):
        self.ember = ember
        self.name = place.name
        self.root = root
        self._place = place
        self._arguments: tuple[type, Arguments] | None = None

    def enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        ember = self.ember
        if ember._idle():
            return
        if self.root:
            ember.mt_log = []
            ember.t.begin()
        self._log("enter")
        if self._arguments is None or self._arguments[0] is not type(module):  # a lazy module changes its type
            self._arguments = type(module), arguments_of(module)
        names = self._arguments[1]
        given = [*((names.name(position), value) for position, value in enumerate(args)), *kwargs.items()]
        ember._note(self.name, "input", (found for name, value in given for found in tensors_in(value, name)))

"""Tensors held by functions, suspended or finished code, and the objects of torch."""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from hiding import Built, Plain, hide, place, tensor, with_attribute

# ---- functions


@place("holder.args[0]")
def partial_argument() -> Built:
    return hide(lambda t: functools.partial(print, t))


@place("holder.keywords['end']")
def partial_keyword() -> Built:
    return hide(lambda t: functools.partial(print, end=t))


@place("closed (closure of mk)")
def closure() -> Built:
    def mk(closed: torch.Tensor) -> object:
        return lambda: closed

    return hide(mk)


@place("cfg['w'] (closure of mk)")
def item_of_a_closure_variable() -> Built:
    def mk(t: torch.Tensor) -> object:
        cfg = {"w": t}
        return lambda: cfg

    return hide(mk)


@place("holder.__defaults__[0]")
def default_argument() -> Built:
    def hold(t: torch.Tensor) -> object:
        def function(x: object = t) -> None: ...

        return function

    return hide(hold)


@place("holder.__kwdefaults__['x']")
def keyword_default() -> Built:
    def hold(t: torch.Tensor) -> object:
        def function(*, x: object = t) -> None: ...

        return function

    return hide(hold)


@place("holder.w")
def function_attribute() -> Built:
    return hide(lambda t: with_attribute(lambda: None, t))


@place("holder.__self__.w")
def bound_method() -> Built:
    return hide(lambda t: types.MethodType(print, with_attribute(Plain(), t)))


@place("holder.<cached>")
def lru_cache() -> Built:
    @functools.lru_cache
    def made(key: int) -> torch.Tensor:
        return tensor()

    return made, weakref.ref(made(1))


@place("holder.cell_contents")
def cell() -> Built:
    return hide(types.CellType)


@place("t (closure of property_getter)")
def property_getter() -> Built:
    t = tensor()
    return property(lambda self: t), weakref.ref(t)


# ---- suspended and finished code


@place("inside (local of run)")
def generator() -> Built:
    def run() -> Iterator[object]:
        inside = tensor()
        yield weakref.ref(inside)
        yield inside

    running = run()
    return running, next(running)  # type: ignore[return-value]


@place("inside (local of deeper)")
def delegated_generator() -> Built:
    def deeper() -> Iterator[Any]:
        inside = tensor()
        yield weakref.ref(inside)
        yield inside

    def run() -> Iterator[Any]:
        yield from deeper()

    running = run()
    return running, next(running)


@place("inside (local of run)")
def coroutine() -> Built:
    class Pause:
        def __await__(self) -> Iterator[Any]:
            yield

    refs = []

    async def run() -> None:
        inside = tensor()
        refs.append(weakref.ref(inside))
        await Pause()
        del inside

    running = run()
    running.send(None)
    return contextlib.closing(running), refs[0]


@place("inside (local of run)")
def context_manager() -> Built:
    refs = []

    @contextlib.contextmanager
    def run() -> Iterator[None]:
        inside = tensor()
        refs.append(weakref.ref(inside))
        yield
        del inside

    manager = run()
    manager.__enter__()
    return manager, refs[0]


@place("inside (local of bad)")
def traceback_of_an_exception() -> Built:
    refs = []

    def bad() -> None:
        inside = tensor()
        refs.append(weakref.ref(inside))
        raise ValueError

    try:
        bad()
    except ValueError as error:
        return [error], refs[0]
    raise AssertionError


@place("holder.args[0]")
def argument_of_an_exception() -> Built:
    return hide(ValueError)


# ---- torch


@place("holder.extra")
def attribute_of_a_tensor() -> Built:
    return hide(lambda t: with_attribute(torch.ones(1), t, "extra"))


@place("holder.grad")
def gradient() -> Built:
    leaf = tensor()
    leaf.grad = torch.zeros(3)
    return leaf, weakref.ref(leaf.grad)


@place("holder._base")
def base_of_a_view() -> Built:
    base = torch.ones(3)
    return base[:2], weakref.ref(base)


@place("hook_scale (closure of hold)")
def closure_of_a_tensor_hook() -> Built:
    def hold(hook_scale: torch.Tensor) -> object:
        leaf = tensor()
        leaf.register_hook(lambda grad: grad * hook_scale)
        return leaf

    return hide(hold)


@place("holder.grad_fn.extra")
def attribute_of_a_custom_function_context() -> Built:
    refs = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.extra = tensor()
            refs.append(weakref.ref(ctx.extra))
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    return Double.apply(tensor()), refs[0]


@place("holder.0.weight")
def parameter() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    return model, weakref.ref(model[0].weight)


@place("holder.blocks.1.head.weight")
def parameter_deep_in_a_module() -> Built:
    model = torch.nn.Module()
    head = torch.nn.ModuleDict({"head": torch.nn.Linear(3, 3)})
    model.blocks = torch.nn.ModuleList([torch.nn.ReLU(), head])
    return model, weakref.ref(head["head"].weight)


@place("holder.0.weight.grad")
def gradient_of_a_parameter() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    model[0].weight.grad = torch.zeros(3, 3)
    return model, weakref.ref(model[0].weight.grad)


@place("holder.running_mean")
def buffer() -> Built:
    model = torch.nn.BatchNorm1d(3)
    return model, weakref.ref(model.running_mean)


@place("holder.cache")
def tensor_kept_on_a_module() -> Built:
    model = torch.nn.Linear(3, 3)
    model.cache = torch.ones(3)
    return model, weakref.ref(model.cache)


@place("holder.parametrizations.weight.original0")
def parametrized_weight() -> Built:
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    return model, weakref.ref(model.parametrizations.weight.original0)


@place("holder[0].state[holder[1].0.weight]['exp_avg']")
def optimizer_state() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    return (optimizer, model), weakref.ref(optimizer.state[model[0].weight]["exp_avg"])


@place("kept (closure of hold)")
def closure_of_a_forward_hook() -> Built:
    def hold(kept: torch.Tensor) -> object:
        model = torch.nn.Linear(2, 2)
        model.register_forward_hook(lambda module, args, out: kept)
        return model

    return hide(hold)


@place("holder.tensors[0]")
def dataset() -> Built:
    return hide(torch.utils.data.TensorDataset)

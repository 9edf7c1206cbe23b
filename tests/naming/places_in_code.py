"""Tensors held by functions, and by suspended or finished code."""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import AsyncIterator, Iterator
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


@place("holder.__func__.__defaults__[0]")
def static_method() -> Built:
    def hold(t: torch.Tensor) -> object:
        def function(x: object = t) -> None: ...

        return staticmethod(function)

    return hide(hold)


@place("holder.method.__func__.__defaults__[0]")
def default_of_a_class_method() -> Built:
    def hold(t: torch.Tensor) -> object:
        class Local:
            @classmethod
            def method(cls, x: object = t) -> None: ...

        return Local

    return hide(hold)


@place("t (closure of wrapped_function)")
def wrapped_function() -> Built:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def inner() -> object:
            return function()

        return inner

    t = tensor()
    return decorated(lambda: t), weakref.ref(t)


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
def asynchronous_generator() -> Built:
    refs = []

    async def run() -> AsyncIterator[None]:
        inside = tensor()
        refs.append(weakref.ref(inside))
        yield
        del inside

    running = run()
    with contextlib.suppress(StopIteration):
        running.__anext__().send(None)
    return running, refs[0]


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


@place("inside (local of bad)")
def traceback_of_the_exception_before() -> Built:
    refs = []

    def bad() -> None:
        inside = tensor()
        refs.append(weakref.ref(inside))
        raise ValueError

    try:
        try:
            bad()
        except ValueError:
            raise KeyError from None
    except KeyError as error:
        return [error], refs[0]
    raise AssertionError


@place("holder.args[0]")
def argument_of_an_exception() -> Built:
    return hide(ValueError)

"""Tensors held by objects, classes and what the standard library offers to keep things in."""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import dataclasses
import enum
import functools
import queue
import threading
import types
import weakref

import torch
from hiding import Built, Plain, hide, place, tensor, with_attribute


class Slotted:
    __slots__ = ("w",)


@dataclasses.dataclass
class Config:
    scale: object


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenConfig:
    scale: object


class Colour(enum.Enum):
    RED = 1


@place("holder.w")
def object_attribute() -> Built:
    return hide(lambda t: with_attribute(Plain(), t))


@place("holder.w")
def object_attribute_with_a_dict_made() -> Built:
    def hold(t: torch.Tensor) -> object:
        obj = with_attribute(Plain(), t)
        assert vars(obj)
        return obj

    return hide(hold)


@place("holder.w")
def slot() -> Built:
    return hide(lambda t: with_attribute(Slotted(), t))


@place("holder.scale")
def dataclass_field() -> Built:
    return hide(Config)


@place("holder.scale")
def slotted_dataclass_field() -> Built:
    return hide(FrozenConfig)


@place("holder.w")
def simple_namespace() -> Built:
    return hide(lambda t: types.SimpleNamespace(w=t))


@place("holder.w")
def attribute_of_a_dict_subclass() -> Built:
    class Registry(dict[str, object]):
        pass

    return hide(lambda t: with_attribute(Registry(), t))


@place("holder['w']")
def item_of_a_dict_subclass() -> Built:
    class Registry(dict[str, object]):
        pass

    return hide(lambda t: Registry(w=t))


@place("holder.trainer.config.scale")
def chain_of_attributes() -> Built:
    return hide(lambda t: with_attribute(Plain(), with_attribute(Plain(), Config(t), "config"), "trainer"))


@place("holder.cached")
def cached_property() -> Built:
    class Lazy:
        @functools.cached_property
        def cached(self) -> torch.Tensor:
            return tensor()

    lazy = Lazy()
    return lazy, weakref.ref(lazy.cached)


@place("holder.__class__.w")
def class_reached_by_its_object_only() -> Built:
    def hold(t: torch.Tensor) -> object:
        class Local:
            w = t

        return Local()

    return hide(hold)


@place("holder.w")
def class_attribute_of_a_local_class() -> Built:
    return hide(lambda t: type("Local", (), {"w": t, "__module__": __name__}))


@place("holder.w")
def enum_member_attribute() -> Built:
    class Local(enum.Enum):
        RED = 1

    return hide(lambda t: with_attribute(Local.RED, t))


@place("holder[Colour.RED]")
def enum_key() -> Built:
    return hide(lambda t: {Colour.RED: t})


KEY = Plain()


@place("holder.data[<ReferenceType>]")
def weak_key_dictionary() -> Built:
    return hide(lambda t: weakref.WeakKeyDictionary({KEY: t}))


@place("holder.queue[0]")
def queue_item() -> Built:
    def hold(t: torch.Tensor) -> object:
        waiting: queue.Queue[object] = queue.Queue()
        waiting.put(t)
        return waiting

    return hide(hold)


@place("holder._result")
def result_of_a_future() -> Built:
    def hold(t: torch.Tensor) -> object:
        future: concurrent.futures.Future[object] = concurrent.futures.Future()
        future.set_result(t)
        return future

    return hide(hold)


@place("args[0] (closure of _BaseExitStack._create_cb_wrapper)")
def exit_stack() -> Built:
    def hold(t: torch.Tensor) -> object:
        stack = contextlib.ExitStack()
        stack.callback(lambda t: None, t)
        return stack

    return hide(hold)


@place("holder.__class__.scale.w")
def descriptor_of_a_class() -> Built:
    class Scale:
        def __get__(self, obj: object, owner: object = None) -> object:
            raise AssertionError("evaluated")

    def hold(t: torch.Tensor) -> object:
        class Local:
            scale = with_attribute(Scale(), t)

        return Local()

    return hide(hold)


@place("holder.enter_result")
def nullcontext() -> Built:
    return hide(contextlib.nullcontext)


@place("holder.w")
def thread_local() -> Built:
    return hide(lambda t: with_attribute(threading.local(), t))


@place("holder.get()")
def context_variable() -> Built:
    def hold(t: torch.Tensor) -> object:
        variable: contextvars.ContextVar[object] = contextvars.ContextVar("scale")
        variable.set(t)
        return variable

    return hide(hold)

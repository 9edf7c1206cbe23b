"""Tensors held by containers and objects."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import threading
import types
import weakref

import numpy as np
import torch
from hiding import Built, Plain, hide, place, tensor, with_attribute

# ---- containers


@place("holder['w']")
def dict_item() -> Built:
    return hide(lambda t: {"w": t})


@place("holder[0]")
def list_item() -> Built:
    return hide(lambda t: [t])


@place("holder[1]")
def tuple_item() -> Built:
    return hide(lambda t: (None, t))


@place("holder['a'][2]['b'][0]")
def nested_containers() -> Built:
    return hide(lambda t: {"a": [1, 2, {"b": (t,)}]})


@place("holder[0]")
def deque_item() -> Built:
    return hide(lambda t: collections.deque([t]))


@place("holder.<element>")
def set_element() -> Built:
    return hide(lambda t: {t})


@place("holder.<element>")
def frozenset_element() -> Built:
    return hide(lambda t: frozenset([t]))


@place("holder.<key>")
def dict_key() -> Built:
    return hide(lambda t: {t: 1})


Pair = collections.namedtuple("Pair", "left right")


@place("holder.right")
def namedtuple_field() -> Built:
    return hide(lambda t: Pair(1, t))


@place("holder['w']")
def ordered_dict() -> Built:
    return hide(lambda t: collections.OrderedDict(w=t))


@place("holder['k'][0]")
def default_dict() -> Built:
    return hide(lambda t: collections.defaultdict(list, k=[t]))


@place("holder.maps[1]['w']")
def chain_map() -> Built:
    return hide(lambda t: collections.ChainMap({}, {"w": t}))


@place("holder.data['w']")
def user_dict() -> Built:
    return hide(lambda t: collections.UserDict(w=t))


@place("holder.data[0]")
def user_list() -> Built:
    return hide(lambda t: collections.UserList([t]))


@place("holder['w']")
def mapping_proxy() -> Built:
    return hide(lambda t: types.MappingProxyType({"w": t}))


@place("holder.mapping['w']")
def dict_view() -> Built:
    return hide(lambda t: {"w": t}.values())


@place("holder.<list_iterator>[0]")
def list_iterator() -> Built:
    return hide(lambda t: iter([t]))


@place("holder.<repeat>")
def repeat() -> Built:
    return hide(itertools.repeat)


@place("holder.<chain>.<tuple_iterator>[0].<list_iterator>[0]")
def chain() -> Built:
    return hide(lambda t: itertools.chain(iter([t])))


@place("holder.start")
def slice_bound() -> Built:
    return hide(lambda t: slice(t, None))


@place("holder[0]")
def numpy_object_array() -> Built:
    def hold(t: torch.Tensor) -> object:
        array = np.empty(1, object)
        array[0] = t
        return array

    return hide(hold)


@place("holder[1, 0]")
def numpy_object_matrix() -> Built:
    def hold(t: torch.Tensor) -> object:
        array = np.empty((2, 2), object)
        array[1, 0] = t
        return array

    return hide(hold)


# ---- objects


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

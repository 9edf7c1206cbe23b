"""Tensors held by containers and iterators."""

from __future__ import annotations

import collections
import itertools
import types

import numpy as np
import torch
from hiding import Built, hide, place


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


@place("holder.<enumerate>.<list_iterator>[0]")
def enumeration() -> Built:
    return hide(lambda t: enumerate([t]))


@place("holder.<dict_itemiterator>['w']")
def dict_iterator() -> Built:
    return hide(lambda t: iter({"w": t}.items()))


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

"""The objects of a class that are alive, found without taking hold of any other.

`gc.get_objects()` lists everything, also the tuples that other threads are still building; to hold one of those makes
its thread fail with a SystemError. Whoever refers to a class is its instances, and little else.

Source: CPython, Objects/tupleobject.c, `_PyTuple_Resize`; Objects/typeobject.c, `subtype_traverse`.
"""

from __future__ import annotations

import gc
from typing import TypeVar

_T = TypeVar("_T")


def alive(kind: type[_T]) -> list[_T]:
    """Return the objects of a class, and of those that inherit from it, that the garbage collector knows.

    Nothing of the user's runs: only types are compared, by identity. Takes some milliseconds, or a second where there
    are millions of objects.
    """
    kinds = [kind]
    for each in kinds:  # grows as we go
        kinds += type.__subclasses__(each)
    wanted = set(map(id, kinds))
    return [each for each in gc.get_referrers(*kinds) if id(type(each)) in wanted]

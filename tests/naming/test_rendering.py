"""What a name may contain: an expression that leads to the object, and nothing that a terminal would obey."""

from __future__ import annotations

import collections
import enum
import threading
import types
import weakref
from typing import Any

import pytest
import torch
from hiding import path_of, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.naming import search

# ---- what a name may contain


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("a\nb", r"table['a\nb']"),
        ("\x1b[31mred", r"table['\x1b[31mred']"),
        ("\u202eevil", r"table['\u202eevil']"),
        ("<b>", "table['<b>']"),
        (b"\x00", r"table[b'\x00']"),
        ((1, "a"), "table[1, 'a']"),
        ((1,), "table[(1,)]"),
        ((), "table[()]"),
        (None, "table[None]"),
        (10**100, "table[<int>]"),
        ("x" * 10_000, "table['" + "x" * 59 + "'…]"),
        (frozenset(), "table[<frozenset>]"),
        (object(), "table[<object>]"),
        ((object(),), "table[<tuple>]"),
    ],
)
def test_a_key_is_made_visible_and_short(key: object, shown: str) -> None:
    table = {key: tensor()}
    assert search([weakref.ref(next(iter(table.values())))()]).names[0][0].path == shown


def test_an_enum_key_is_shown_by_its_name_even_when_its_repr_raises() -> None:
    class Kind(enum.Enum):
        FAST = 1

        def __repr__(self) -> str:
            raise AssertionError("evaluated")

        __str__ = __repr__

    table = {Kind.FAST: tensor()}
    assert path_of(weakref.ref(table[Kind.FAST])) == "table[Kind.FAST]"


def test_attribute_module_thread_and_class_names_cannot_inject_terminal_codes() -> None:
    evil = "\x1b[2J\nx"
    obj = types.SimpleNamespace()
    obj.__dict__[evil] = tensor()
    net = torch.nn.ModuleDict({evil.replace(".", ""): torch.nn.Linear(1, 1)})
    odd = type(evil, (), {})
    table = {odd(): tensor()}
    refs, started, done = [], threading.Event(), threading.Event()

    def work() -> None:
        inside = tensor()
        refs.append(weakref.ref(inside))
        started.set()
        done.wait()
        del inside

    thread = threading.Thread(target=work, name=evil)
    thread.start()
    started.wait()
    targets = [obj.__dict__[evil], next(iter(net.values())).weight, next(iter(table.values())), refs[0]()]
    found = search(targets)
    del targets
    done.set()
    thread.join()
    texts = [name.text + name.path + name.scope for names in found.names for name in names]
    assert len(texts) >= 4
    assert [text for text in texts if not text.isprintable()] == []


def test_a_very_long_path_is_shortened() -> None:
    nest: list[Any] = [tensor()]
    target = weakref.ref(nest[0])
    for _ in range(5_000):
        nest = [nest]
    path = search([target()]).names[0][0].path
    assert path.startswith("nest[0][0]") and "…" in path and len(path) <= 300


# ---- any nest of containers


class Spot:
    """Where hypothesis puts the tensor."""


KEYS = st.one_of(
    st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.binary(max_size=4), st.tuples(st.integers())
)
LEAVES = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.floats())
NESTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(collections.deque),
        st.dictionaries(KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)
WRAPS = st.lists(st.tuples(st.sampled_from(["list", "tuple", "deque", "dict"]), KEYS, NESTS), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(WRAPS)
def test_the_path_of_a_tensor_in_any_nest_leads_to_it(wraps: list[tuple[str, Any, Any]]) -> None:
    nest: Any = tensor()
    target = weakref.ref(nest)
    for kind, key, other in wraps:
        pair = [other, nest]
        nest = {"other!": other, key: nest} if kind == "dict" else getattr(collections, kind, tuple)(pair)
        if kind == "list":
            nest = pair
    del pair
    names = search([target()]).names[0]
    assert names[0].scope == "test_the_path_of_a_tensor_in_any_nest_leads_to_it"
    assert eval(names[0].path, {"nest": nest, "target": None}) is target()

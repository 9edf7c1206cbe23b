"""The memory of a step as plain JSON: all of it comes back, and nothing else is taken for it."""

from __future__ import annotations

import copy
import json
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import backsight as bs
from backsight.memory import memory_of
from backsight.tape import BadDocument

_MODEL = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@cache
def _measured():
    optimizer = torch.optim.Adam(_MODEL.parameters())  # which does not outlive this: other tests look for optimizers

    def step():
        _MODEL(torch.ones(4, 8)).sum().backward()
        optimizer.step()

    return bs.measure_memory(step, optimizer, model=_MODEL)


@cache
def _whole():
    return json.loads(json.dumps(_measured().document()))


def test_all_views_are_the_same():
    read = memory_of(_whole())
    assert read.document() == _whole()
    assert read.table() == _measured().table()
    assert str(read.at_peak) == str(_measured().at_peak)
    assert read.to_html() == _measured().to_html()
    assert (read.by_module, read.by_node) == (_measured().by_module, _measured().by_node)


def test_what_ended_with_an_exception_says_so():
    with pytest.raises(ZeroDivisionError), bs.measure_memory(_MODEL) as measured:
        _MODEL(torch.ones(1, 8)).sum().backward()
        raise ZeroDivisionError
    assert memory_of(measured.document()).failed == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("version", 9, "its version is 9, but this backsight reads 1"),
        ("block", [0], "block has 1 entries, which does not fit the rest"),
        ("blocks", [], "block holds int"),
        ("spans", [["sideways", 0, 0, 0, 0]], "spans[0][0] must be one of forward, backward, recomputation"),
        ("failed", 3, "failed must be str, not int '3'"),
        ("delta", None, "delta must be list, not NoneType"),
    ],
)
def test_what_is_wrong_is_refused_with_the_place(place, value, says):
    with pytest.raises(BadDocument) as failure:
        memory_of({**_whole(), place: value})
    assert says in str(failure.value)


_JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


def _places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, held in inner:
        yield from _places(held, (*path, key))


@settings(max_examples=300)
@given(st.deferred(lambda: st.sampled_from([path for path in _places(_whole()) if path])), _JSON)
def test_a_document_that_is_wrong_anywhere_is_refused_or_can_be_looked_at(path, value):
    held = copy.deepcopy(_whole())
    *around, last = path
    target = held
    for key in around:
        target = target[key]
    target[last] = value
    try:
        read = memory_of(held)
    except BadDocument:
        return
    assert str(read.at_peak)
    assert read.to_html()


def test_what_was_written_before_there_were_lines_is_read():
    older = {**_whole(), "blocks": [block[:12] for block in _whole()["blocks"]]}
    del older["classes"]
    read = memory_of(older)
    assert read.by_module == _measured().by_module
    assert {block.source for block in read.history.blocks} == {""}

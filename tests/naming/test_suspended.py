"""Generators and coroutines that nothing but a loop of the interpreter, or an event loop, holds."""

import asyncio
import gc
import inspect
import weakref
from contextlib import contextmanager
from pathlib import Path

import torch

from backsight.naming import search
from backsight.naming.suspended import suspended


def tensors(count):
    for _ in range(count):
        kept = [torch.ones(2)]
        yield weakref.ref(kept[0])


@contextmanager
def holding(ready):
    within = torch.ones(4)
    ready.append(weakref.ref(within))
    yield


class Batches:
    @staticmethod
    def each():
        own = torch.ones(5)
        yield weakref.ref(own)


def test_behind_a_decorator_and_in_a_class_they_are_found_too():
    ready = []
    with holding(ready):
        assert search([ready[0]()]).names[0][0].path == "within"
    for given in Batches.each():
        assert search([given()]).names[0][0].path == "own"


def test_a_variable_of_a_generator_that_a_loop_alone_holds_has_its_name():
    for given in tensors(1):
        assert search([given()]).names[0][0].path == "kept[0]"
        assert "tensors" in {frame.f_code.co_name for frame in suspended()}


def test_a_variable_of_another_task_has_its_name():
    async def keeper(ready):
        mine = torch.ones(3)
        ready.append(weakref.ref(mine))
        await asyncio.sleep(10)

    async def main():
        ready = []
        tasks = {asyncio.ensure_future(keeper(ready))}
        await asyncio.sleep(0)
        tasks.pop()  # a program need not keep it
        return search([ready[0]()]).names[0][0].path

    assert asyncio.run(main()) == "mine"


def test_those_of_a_class_that_the_program_has_imported_are_not_asked_for(monkeypatch):
    assert vars(Path)["glob"].__code__.co_flags & inspect.CO_GENERATOR
    asked = []
    monkeypatch.setattr(gc, "get_referrers", lambda *codes: asked.extend(codes) or [])
    assert suspended() == []
    assert tensors.__code__ in asked and vars(Path)["glob"].__code__ not in asked


def test_what_has_ended_is_not_there():
    ended = tensors(1)
    assert list(ended)
    assert "tensors" not in [frame.f_code.co_name for frame in suspended()]


def test_nothing_is_kept_alive():
    for given in tensors(2):
        search([given()])
        last = given
    gc.collect()
    assert last() is None

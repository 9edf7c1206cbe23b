"""Local and global variables, of whatever frame, thread or module; and tensors that no variable holds."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import fresh
import torch
from hiding import tensor

from backsight.naming import Name, search

# ---- variables


def best(names: tuple[Name, ...]) -> str:
    return names[0].text


def test_a_local_variable() -> None:
    delta = tensor()
    name = search([delta]).names[0][0]
    assert name.text == "delta (local of test_a_local_variable)"
    assert (name.path, name.scope, name.kind, name.exact, name.distance) == (
        "delta",
        "test_a_local_variable",
        "local",
        True,
        0,
    )
    assert name.file == __file__
    assert name.line == test_a_local_variable.__code__.co_firstlineno + 2


def test_a_local_variable_of_the_callers_caller() -> None:
    refs = []

    def outer() -> str:
        outer_local = tensor()
        refs.append(weakref.ref(outer_local))
        return middle()

    def middle() -> str:
        return inner()

    def inner() -> str:
        return best(search([refs[0]()]).names[0])

    assert outer() == "outer_local (local of outer)"


GLOBAL = tensor()


def in_a_module(name: str) -> str:
    return f"{__name__}.{name}"


def test_a_global_variable_of_an_imported_module() -> None:
    name = search([GLOBAL]).names[0][0]
    assert (name.text, name.path, name.scope, name.kind) == (in_a_module("GLOBAL"), "GLOBAL", __name__, "global")


class Holder:
    class_attribute = tensor()

    def method(self, default: object = tensor()) -> None: ...


def test_a_class_attribute() -> None:
    assert best(search([Holder.class_attribute]).names[0]) == in_a_module("Holder.class_attribute")


def test_a_class_attribute_is_named_by_the_class_though_an_object_is_nearer() -> None:
    near = Holder()
    assert best(search([Holder.class_attribute]).names[0]) == in_a_module("Holder.class_attribute")
    assert near


def test_a_default_argument_of_a_method() -> None:
    target = weakref.ref(Holder.method.__defaults__[0])
    assert best(search([target()]).names[0]) == in_a_module("Holder.method.__defaults__[0]")


def test_a_module_made_at_run_time() -> None:
    sys.modules["usermod"] = module = types.ModuleType("usermod")
    try:
        module.weight = tensor()
        assert best(search([module.weight]).names[0]) == "usermod.weight"
    finally:
        del sys.modules["usermod"]


def test_globals_of_code_run_by_exec() -> None:
    source = "made = make()\nfound = ask(lambda: made)"
    namespace = {"make": tensor, "ask": lambda get: search([get()]).names[0][0].text, "__name__": "scratch"}
    exec(source, namespace)
    assert namespace["found"] == "scratch.made"


def test_a_local_variable_of_another_thread() -> None:
    refs, started, done = [], threading.Event(), threading.Event()

    def work() -> None:
        th_local = tensor()
        refs.append(weakref.ref(th_local))
        started.set()
        done.wait()
        del th_local

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    started.wait()
    name = search([refs[0]()]).names[0][0]
    done.set()
    thread.join()
    assert name.text == "th_local (local of work@thread:worker)"
    assert name.scope.endswith("work@thread:worker")


def test_a_running_asyncio_task() -> None:
    refs = []

    async def child() -> None:
        inside = tensor()
        refs.append(weakref.ref(inside))
        await asyncio.sleep(30)
        del inside

    async def main() -> str:
        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        found = best(search([refs[0]()]).names[0])
        task.cancel()
        return found

    assert asyncio.run(main()) == "inside (local of child)"


def test_frames_of_a_traceback_are_looked_at_when_given() -> None:
    refs = []

    def bad() -> None:
        logits = tensor()
        refs.append(weakref.ref(logits))
        raise ValueError

    frames = []
    try:
        bad()
    except ValueError as error:
        traceback = error.__traceback__
        while traceback is not None:
            frames.append(traceback.tb_frame)
            traceback = traceback.tb_next
    assert best(search([refs[0]()], frames=frames).names[0]) == "logits (local of bad)"


def test_a_global_of_a_running_module_says_where_it_stands(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom backsight.naming import search\ndelta = torch.ones(3)\n"
        "name = search([delta]).names[0][0]\nprint(name.text, name.file == __file__, name.line)\n"
    )
    done = fresh.run([sys.executable, str(script)])
    assert (done.stdout, done.stderr) == ("delta True 4\n", "")


def test_a_library_module_is_searched_only_on_request() -> None:
    torch.nn.functional.left_behind = tensor()
    try:
        assert search([torch.nn.functional.left_behind]).names[0] == ()
        found = search([torch.nn.functional.left_behind], deep=True).names[0]
        assert best(found) == "torch.nn.functional.left_behind"
    finally:
        del torch.nn.functional.left_behind


# ---- nowhere


def test_a_tensor_that_only_autograd_holds_has_no_name() -> None:
    saved = torch.ones(3, requires_grad=True) * 2
    loss = saved.sin()
    hidden = weakref.ref(saved)
    del saved
    assert search([hidden()]).names == ((),)
    assert loss.requires_grad


def test_weak_containers_do_not_hold() -> None:
    saved = torch.ones(3, requires_grad=True) * 2
    loss = saved.sin()
    weak = weakref.WeakValueDictionary(w=saved)
    del saved
    assert search([weak["w"]]).names == ((),)
    assert loss.requires_grad


def test_what_only_a_node_of_the_graph_holds_has_no_name() -> None:
    scale, hooked = tensor(), tensor() * 2
    hidden = weakref.ref(scale)
    hooked.grad_fn.register_prehook(lambda grads, scale=scale: (grads[0] * scale,))
    del scale
    assert search([hidden()]).names == ((),)


def test_what_a_custom_function_saved_has_no_name() -> None:
    refs = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            between = x + 1
            ctx.save_for_backward(between)
            refs.append(weakref.ref(between))
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    y = Double.apply(tensor())
    assert search([refs[0]()]).names == ((),)
    assert y.requires_grad

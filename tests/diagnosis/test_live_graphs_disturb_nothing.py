"""Looking at the live graphs runs nothing of the program, makes no node, and keeps nothing alive."""

from __future__ import annotations

import gc
import sys
import textwrap
import threading
import weakref
from typing import Any

import fresh
import pytest
import torch
from living import Twice, held, mlp
from torch import nn

import backsight as bs
from backsight.naming.elsewhere import trains_elsewhere


class Hostile:
    """An object that ends the test if any of its code runs."""

    __class__ = property(lambda self: pytest.fail("__class__ was read"))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"{name} was read")

    def __eq__(self, other: object) -> bool:
        pytest.fail("== was asked")

    def __hash__(self) -> int:
        pytest.fail("hash was asked")

    def __repr__(self) -> str:
        pytest.fail("repr was asked")

    def __len__(self) -> int:
        pytest.fail("len was asked")


class HostileClass(type):
    def __hash__(cls) -> int:
        pytest.fail("the hash of a class was asked")

    def __eq__(cls, other: object) -> bool:
        pytest.fail("== of a class was asked")

    def __subclasses__(cls) -> Any:
        pytest.fail("__subclasses__ was asked")


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        pytest.fail(f"__torch_function__ ran for {func}")


class TestItDisturbsNothing:
    def test_nothing_of_the_users_runs(self) -> None:
        hostile = [Hostile(), HostileClass("Named", (), {})()]
        with torch._C.DisableTorchFunction():
            overriding = (torch.ones(3, requires_grad=True) * 2).as_subclass(Overriding)
            weight = torch.ones(3, requires_grad=True)
            beside = weight.sum()
        assert held("beside").nodes == 1 and held("overriding").nodes >= 1
        assert len(hostile) == 2
        del beside, overriding

    def test_nothing_is_kept_alive(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        gc.disable()
        try:
            loss = weight.exp().sum()
            alive = weakref.ref(loss)
            found = bs.graphs()
            del loss
            assert alive() is None
        finally:
            gc.enable()
        assert len(found) >= 1

    def test_no_node_is_made_by_looking(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = torch.randn(3, 4)
        history, number = [], torch.autograd._get_sequence_nr  # type: ignore[attr-defined]  # what the next node gets
        bs.graphs()  # what other tests have left behind is theirs
        for _ in range(3):
            state = model(state)
            part = state[:, :2]
            state.mul_(2)  # the view `part` is out of date, and so are those of the weights that were saved
            history += [state, part]
            optimizer.step()
            before = number()
            bs.graphs()
            assert number() == before

    def test_no_node_is_made_for_a_view_that_a_custom_function_has_saved(self) -> None:
        base = torch.ones(4, requires_grad=True) * 2
        doubled = Twice.apply(base[:2])
        base.mul_(3)  # what was saved is out of date
        number = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
        before = number()
        assert held("base").nodes == 4
        assert number() == before
        del doubled

    def test_a_view_of_what_was_changed_is_told_by_what_it_looks_into(self) -> None:
        whole = torch.randn(3, 4, requires_grad=True) * 2
        part = whole[:, :2]
        whole.mul_(3)
        del whole
        found = held("part")
        assert (found.newest.op, found.nodes) == ("MulBackward0", 2)
        assert part.grad_fn is not None

    def test_a_backward_afterwards_is_as_it_was(self) -> None:
        model, x = mlp(), torch.randn(8, 64)
        expected = torch.autograd.grad(model(x).mean(), list(model.parameters()))
        loss = model(x).mean()
        bs.graphs()
        assert all(map(torch.equal, torch.autograd.grad(loss, list(model.parameters())), expected))
        assert gc.isenabled()

    def test_no_gradient_is_read_while_another_thread_is_in_a_backward(self) -> None:
        inside, seen = threading.Event(), threading.Event()

        def wait(grad: torch.Tensor) -> None:
            inside.set()
            seen.wait(60)

        x = torch.ones(3, requires_grad=True)
        x.register_hook(wait)
        thread = threading.Thread(target=lambda: x.sum().backward())
        thread.start()
        try:
            inside.wait(60)
            assert trains_elsewhere()
            bs.graphs()
        finally:
            seen.set()
            thread.join()
        assert not trains_elsewhere()

    @pytest.mark.parametrize("operations", [100_000])
    def test_deep_graphs_can_be_freed_afterwards(self, operations: int) -> None:
        program = f"""
        import torch
        import backsight as bs
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range({operations}):
            y = y.neg()
        kept = [y]
        print(len(bs.graphs()), bs.graphs().nodes, bs.graphs().held[0].name)
        del y, kept
        print(bs.graphs())
        """
        ended = fresh.run([sys.executable, "-c", textwrap.dedent(program)], timeout=300)
        assert (ended.returncode, ended.stdout) == (
            0,
            f"1 {operations} y\nNo autograd graph is alive.\n",
        ), ended.stderr

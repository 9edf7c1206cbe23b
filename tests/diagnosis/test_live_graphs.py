"""`graphs`: every graph that is alive, and what holds it. Nothing of the user's runs, and nothing is kept alive."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import backsight as bs
from backsight.diagnosis.live import Held, census, holders


def held(name: str) -> Held:
    """What is held by a variable whose name begins so."""
    (found,) = [each for each in bs.graphs().held if each.name.startswith(name)]
    return found


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


class Holder:
    def __init__(self) -> None:
        self.values: dict[str, list[torch.Tensor]] = {}


class TestHolders:
    def test_the_losses_of_a_list_are_told_together_by_the_newest(self) -> None:
        model, history = mlp(), []
        for _ in range(30):
            loss = model(torch.randn(8, 64)).mean()
            loss.backward()
            history.append(loss)
        found = held("history")
        assert found.name.startswith("history[29] (local of TestHolders.test_the_losses")
        assert (len(found.graphs), found.nodes, found.bytes) == (30, 30 * 6, 0)
        assert all(graph.freed and graph.op == "MeanBackward0" and graph.shape == () for graph in found.graphs)
        assert [graph.name.partition(" ")[0] for graph in found.graphs] == [f"history[{n}]" for n in range(29, -1, -1)]

    def test_lists_in_dicts_in_objects(self) -> None:
        model, log = mlp(), Holder()
        for _ in range(3):
            log.values.setdefault("loss", []).append(model(torch.randn(8, 64)))
        assert held("log").name.startswith("log.values['loss'][2] (local of ")

    def test_a_running_sum_is_one_graph(self) -> None:
        model, total = mlp(), torch.zeros(())
        for _ in range(5):
            total = total + model(torch.randn(8, 64)).mean()
        found = held("total")
        assert (len(found.graphs), found.nodes) == (1, 5 * 7)

    def test_graphs_that_share_only_leaves_are_not_one(self) -> None:
        shared = mlp()
        one, other = shared(torch.randn(8, 64)), shared(torch.randn(8, 64))
        assert (held("one").nodes, held("other").nodes) == (5, 5)
        del one, other

    def test_graphs_that_share_an_operation_are_one(self) -> None:
        encoded = mlp()(torch.randn(8, 64))
        one, other = encoded.mean(), encoded.sum()
        assert one.requires_grad and other.requires_grad
        (found,) = [graph for graph in bs.graphs() if any(n.path in ("one", "other") for n in graph.names)]
        assert found.nodes == 7

    def test_what_another_thread_holds(self) -> None:
        made, done = threading.Event(), threading.Event()

        def work() -> None:
            of_the_thread = mlp()(torch.randn(8, 64)).mean()
            made.set()
            done.wait(60)
            del of_the_thread

        thread = threading.Thread(target=work, name="worker")
        thread.start()
        made.wait(60)
        try:
            assert "@thread:worker" in held("of_the_thread").name
        finally:
            done.set()
            thread.join()

    @pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
    def test_a_gradient_that_has_a_graph(self) -> None:
        critic = nn.Linear(4, 1, bias=False)
        critic(torch.randn(3, 4)).square().mean().backward(create_graph=True)
        assert held("critic.weight.grad").nodes > 3
        critic.weight.grad = None

    def test_more_graphs_in_a_list_than_are_looked_for_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holders, "_ASKED", 5)
        weight = torch.ones(3, requires_grad=True)
        many = [weight.sum() for _ in range(40)]
        assert len(held("many").graphs) == len(many)

    def test_a_list_beside_more_data_than_a_search_can_visit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holders, "_BUDGET", 3000)
        data = [{"number": [n]} for n in range(4000)]
        weight = torch.ones(3, requires_grad=True)
        beside = [weight.sum() for _ in data[:4]]
        assert held("beside").name.startswith("beside[3] (local of ") and len(held("beside").graphs) == len(beside)

    def test_what_no_variable_holds_is_told_by_its_newest_operation(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        only_in_c = torch.autograd.graph.get_gradient_edge((weight * 2).exp().detach().requires_grad_() * 3)
        assert only_in_c.node is not None
        kept = {weight.sin().cos()}  # in a set: held, but by no expression
        assert "CosBackward0 3" in str(bs.graphs())
        del kept


class TestSizes:
    def test_bytes_are_of_saved_memory_once_and_without_the_weights(self) -> None:
        model, x = nn.Linear(64, 64, bias=False), torch.randn(8, 64)
        before = model(x)
        activated = before.relu() + before.exp()
        # x and the results of relu and exp; the weight is the model's own.
        assert held("activated").bytes == 3 * 8 * 64 * 4
        del before, activated

    def test_what_a_backward_has_freed(self) -> None:
        x = torch.randn(8, 64, requires_grad=True)
        loss = x.exp().sin().sum()
        assert (held("loss").bytes, held("loss").newest.freed) == (8 * 64 * 4, False)  # which exp and sin share
        loss.backward()
        assert (held("loss").bytes, held("loss").newest.freed) == (0, True)

    def test_none_where_an_operation_needs_nothing_saved(self) -> None:
        x = torch.randn(8, requires_grad=True)
        twice = x + x
        assert (held("twice").bytes, held("twice").newest.freed) == (0, False)
        del twice

    def test_custom_functions_and_packed_tensors_count(self) -> None:
        x = torch.randn(8, 64, requires_grad=True)
        custom = Twice.apply(x.exp())
        assert held("custom").bytes == 8 * 64 * 4
        with torch.autograd.graph.save_on_cpu():
            packed = x.exp()
        assert held("packed").bytes == 8 * 64 * 4
        del custom, packed

    def test_sparse_results(self) -> None:
        table = nn.Embedding(10, 3, sparse=True)
        looked_up = table(torch.tensor([1, 2])).sum()
        looked_up.backward(retain_graph=True)
        assert held("looked_up").nodes == 2


class TestAges:
    def test_steps_since_under_a_watch(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = []
        with bs.watch():
            for _ in range(4):
                loss = model(torch.randn(8, 64)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(loss)
            now = model(torch.randn(8, 64))
            assert [graph.steps for graph in held("kept").graphs] == [1, 2, 3, 4]
            assert held("now").newest.steps == 0
            assert "age" in str(bs.graphs()) and "this step" in str(bs.graphs())
        del now

    def test_unknown_without_one(self) -> None:
        loss = mlp()(torch.randn(8, 64)).mean()
        newest = held("loss").newest
        assert (newest.steps, newest.backwards, newest.line) == (None, None, "")
        del loss

    def test_lines_and_backwards_under_a_watch_that_knows_them(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        with bs.watch(level="lines"):
            old = weight.exp().sum()
            weight.sin().sum().backward()
            weight.cos().sum().backward()
            newest = held("old").newest
        assert newest.backwards == 2
        assert "test_live_graphs.py:" in newest.line
        del old


class TestGrowth:
    def test_what_there_is_more_of(self) -> None:
        model, history = mlp(), []
        before = bs.graphs()
        history += [model(torch.randn(8, 64)) for _ in range(3)]
        growth = bs.graphs().growth_since(before)
        (grown,) = [each for each in growth.grown if each.name.startswith("history")]
        assert (grown.graphs, grown.nodes, grown.kept) == (3, 15, False)
        assert growth and growth.graphs >= 3
        middle = bs.graphs()
        history.append(model(torch.randn(8, 64)))
        (grown,) = [each for each in bs.graphs().growth_since(middle).grown if each.name.startswith("history")]
        assert (grown.graphs, grown.nodes, grown.kept) == (1, 5, True)

    def test_nothing(self) -> None:
        kept = mlp()(torch.randn(8, 64))
        growth = bs.graphs().growth_since(bs.graphs())
        assert not growth and str(growth) == "No graph has grown, and none is new."
        del kept


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
            assert census._is_in_backward_elsewhere()
            bs.graphs()
        finally:
            seen.set()
            thread.join()
        assert not census._is_in_backward_elsewhere()

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
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300
        )
        assert (ended.returncode, ended.stdout) == (
            0,
            f"1 {operations} y\nNo autograd graph is alive.\n",
        ), ended.stderr


def test_the_table_of_a_process() -> None:
    program = """
    import torch
    import backsight as bs
    torch.manual_seed(0)
    model = torch.nn.Linear(256, 256)
    def train():
        log = {"loss": [], "best": None}
        total = 0.0
        for _ in range(12):
            out = model(torch.randn(64, 256))
            loss = out.square().mean()
            loss.backward()
            total = total + loss
            log["loss"].append(loss)
        log["best"] = out.exp()
        del loss, out
        print(bs.graphs())
    train()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300
    )
    assert ended.stdout == textwrap.dedent(
        """\
        1 live graph, 61 operations, 64 KB kept for backward
        held by                               graphs   operations   pinned   newest result
        ────────────────────────────────────────────────────────────────────────────────────────
        log['best'] (local of train), total        1           61    64 KB   ExpBackward0 64×256
        """
    ), ended.stderr


def test_without_names_it_tells_sizes_alone() -> None:
    loss = mlp()(torch.randn(8, 64)).mean()
    found = bs.graphs(names=False)
    assert all(not graph.names for graph in found) and found.nodes >= 6
    del loss


def test_interrupted_it_leaves_graphs_that_can_be_freed() -> None:
    program = """
    import torch
    import backsight as bs
    from importlib import import_module
    census, graphs = (import_module(f"backsight.diagnosis.live.{name}") for name in ("census", "graphs"))
    x = torch.ones(1, requires_grad=True)
    states = [x]
    for _ in range(100_000):
        states.append(states[-1].neg())
    asked = [0]
    def interrupted(tensor, maker=census.maker):
        asked[0] += 1
        if asked[0] == 90_000:
            raise KeyboardInterrupt
        return maker(tensor)
    graphs.maker = interrupted
    try:
        bs.graphs()
    except KeyboardInterrupt:
        print("interrupted")
    last = states[-1]
    del states
    del last
    print("freed")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stdout) == (0, "interrupted\nfreed\n"), ended.stderr

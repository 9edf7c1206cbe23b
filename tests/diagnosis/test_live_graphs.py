"""`graphs`: every graph that is alive, and what holds it."""

from __future__ import annotations

import re
import sys
import textwrap
import threading
from importlib import import_module
from types import SimpleNamespace

import fresh
import numpy as np
import pytest
import torch
from building import tuples_being_built
from living import Twice, held, mlp
from torch import nn

import backsight as bs
from backsight.tape._torch import NO_SEQUENCE

_graphs = import_module("backsight.diagnosis.live.graphs")  # the module, not the function


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
        assert re.match(r"history\[29\] \(local of (TestHolders\.)?test_the_losses", found.name)  # 3.11 tells the class
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
        monkeypatch.setattr(_graphs, "_ASKED", 5)
        weight = torch.ones(3, requires_grad=True)
        many = [weight.sum() for _ in range(40)]
        assert len(held("many").graphs) == len(many)

    def test_a_list_beside_more_data_than_a_search_can_visit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_graphs, "_BUDGET", 3000)
        data = [{"number": [n]} for n in range(4000)]
        weight = torch.ones(3, requires_grad=True)
        beside = [weight.sum() for _ in data[:4]]
        assert held("beside").name.startswith("beside[3] (local of ") and len(held("beside").graphs) == len(beside)

    def test_tuples_that_other_threads_are_building_are_left_alone(self) -> None:
        loss = torch.ones(3, requires_grad=True).sum()
        kept = [loss]
        with tuples_being_built(lambda: loss):
            for _ in range(20):
                assert "kept[0]" in {name.path for name in _graphs._items_beside([lambda: loss]).values()}
        del kept

    def test_what_no_variable_holds_is_told_by_its_newest_operation(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        only_in_c = torch.autograd.graph.get_gradient_edge((weight * 2).exp().detach().requires_grad_() * 3)
        assert only_in_c.node is not None
        kept = {weight.sin().cos()}  # in a set: held, but by no expression
        assert "CosBackward0 3" in str(bs.graphs())
        del kept


def test_nodes_of_leaves_alone_are_no_graph() -> None:
    """Other nodes have a number by which they were made; without one there is nothing to divide."""
    graphs = import_module("backsight.diagnosis.live.graphs")
    walk = SimpleNamespace(sequence=np.array([NO_SEQUENCE, NO_SEQUENCE], dtype=np.uint64))
    assert graphs._pieces(walk, np.array([0, 1]), {0: []}) == []


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
        assert not growth and str(growth) == "No graph has grown and none is new."
        del kept


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
    ended = fresh.run([sys.executable, "-c", textwrap.dedent(program)], timeout=300)
    assert ended.stdout == textwrap.dedent(
        """\
        1 live graph, 61 operations, 64 KB kept for backward
        held by                               graphs   operations   pinned   newest result
        ────────────────────────────────────────────────────────────────────────────────────────
        total (local of train), log['best']        1           61    64 KB   ExpBackward0 64×256
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
    ended = fresh.run([sys.executable, "-c", textwrap.dedent(program)], timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "interrupted\nfreed\n"), ended.stderr

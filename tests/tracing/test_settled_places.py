"""Where a line has been looked at often enough only the nodes of its calls are noted, and nothing else is different."""

import inspect
import traceback
import warnings

import pytest
import torch
from operators import operators
from sharded import shards
from torch.utils._pytree import tree_leaves

import backsight as bs
from backsight.tape import Living
from backsight.tracing import axes, exact, meetings

ROUNDS = 4


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Lines are settled from their third call on."""
    monkeypatch.setattr(axes, "_MOST_CALLS", 1)
    monkeypatch.setattr(meetings, "_MOST_CALLS", 1)


def places(watch):
    return watch._log.sites.places


def lines_of(watch, result):
    nodes = [node for node in bs.graph(result).nodes if node.sequence is not None]
    return [(node.op, line.text) for node in nodes if (line := watch.line_of(node.sequence)) is not None]


def test_every_round_of_a_loop_has_its_nodes_and_lines():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        for _ in range(ROUNDS):
            y = x * 2
            y = torch.tanh(y) + 1
        assert len(places(watch)) == 3
        assert lines_of(watch, y) == [
            ("Add", "y = torch.tanh(y) + 1"),
            ("Tanh", "y = torch.tanh(y) + 1"),
            ("Mul", "y = x * 2"),
        ]
        assert watch.operation_of(bs.graph(y).nodes[0]).op == "add"


def test_another_function_of_the_same_instruction_is_told_as_itself():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        for function in (torch.sin, torch.sin, torch.sin, torch.cos):
            y = function(x)
        assert places(watch)
        assert watch.operation_of(bs.graph(y).nodes[0]).op == "cos"


def test_what_is_cut_off_in_a_later_round_is_told():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        for enabled in (True, True, True, False):
            with torch.set_grad_enabled(enabled):
                y = x * 2
        assert places(watch)
        assert "no_grad" in {cut.by for cut in watch._log.flow.cuts(y)}


def test_what_is_changed_in_place_in_a_later_round_is_told():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as caught, bs.watch(level="exact"):
        for k in range(ROUNDS):
            y = x * 2
            z = y.exp()
            if k == ROUNDS - 1:
                z.add_(1)
            z.sum().backward()
    assert "z.add_(1)" in str(bs.explain(caught.value))


def test_a_mark_has_a_settled_line_looked_at_again():
    book = []
    x, marked = torch.ones((), requires_grad=True), torch.ones((), requires_grad=True)
    with bs.watch(level="exact") as watch:
        known = watch._log.peculiarities
        for k in range(ROUNDS):
            if k == ROUNDS - 1:
                known.divergences.put(id(marked), marked, (1, 3))
                known.note = lambda look, name, *rest: book.append(name)
            y = x + marked
        assert places(watch)
    assert y.requires_grad
    assert book == ["add"]


def test_marks_that_died_are_none():
    marks = Living()
    x = torch.ones(())
    marks.put(id(x), x, 1)
    assert marks
    del x
    assert not marks


def test_a_warning_is_told_of_the_programs_line(request):
    request.addfinalizer(lambda: torch.set_warn_always(False))
    torch.set_warn_always(True)  # another test may have been told of it already
    with warnings.catch_warnings(record=True) as caught, bs.watch(level="exact") as watch:
        warnings.simplefilter("always")
        x = torch.ones(2, 3, 4, requires_grad=True)
        for _ in range(ROUNDS):
            x.T
        assert places(watch)
    lines, first = inspect.getsourcelines(test_a_warning_is_told_of_the_programs_line)
    line = first + next(k for k, text in enumerate(lines) if text.strip() == "x.T")
    assert {(each.filename, each.lineno) for each in caught if "x.T" in str(each.message)} == {(__file__, line)}


def test_an_error_is_the_programs():
    def trace(kind):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError) as caught, kind():
            for k in range(ROUNDS):
                x @ torch.ones(3 + (k == ROUNDS - 1))
        return str(caught.value), [frame.name for frame in traceback.extract_tb(caught.tb)][:2]

    assert trace(lambda: bs.watch(level="exact")) == trace(lambda: bs.watch(level="calls"))


def test_what_takes_named_arguments_or_a_subclass_goes_the_whole_way():
    class Named(torch.Tensor):
        pass

    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        for k in range(ROUNDS):
            given = x.as_subclass(Named) if k == ROUNDS - 1 else x
            y = torch.exp(given)
            z = torch.sum(y, dim=0) if k < ROUNDS - 1 else torch.sum(y, 0)
        assert type(z) is Named
        assert ("Exp", "y = torch.exp(given)") in lines_of(watch, z)


def test_a_pause_has_all_looked_at_again(monkeypatch):
    monkeypatch.setattr(exact, "has_compiled", lambda: False)  # as another test of this process may have
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        for _ in range(ROUNDS):
            x * 2
        assert places(watch)
        watch.pause()
        watch.resume()
        assert not places(watch)


def test_places_go_with_the_sites_that_are_forgotten(monkeypatch):
    from backsight.tracing import sites

    monkeypatch.setattr(sites, "MOST", 20)
    names = {"x": torch.ones(3, requires_grad=True), "__name__": "__main__"}
    with bs.watch(level="exact") as watch:
        for n in range(60):
            exec(compile(f"for _ in range(4): y = x * {n}", f"<cell {n}>", "exec"), names)
            assert watch.line_of(names["y"].grad_fn._sequence_nr()).file == f"<cell {n}>"
        kept = {place.site for place in places(watch).values()}
        assert kept and kept <= {*watch._log.sites._sites}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(16))
def test_every_operation_has_a_line_however_often_it_is_called(shard):
    without_line, settled = [], 0
    for op in operators()[shard::16]:
        if torch.float32 not in op.dtypes or not op.supports_autograd:
            continue
        try:
            sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=True)))
        except Exception:
            continue
        function = op.get_op()
        with bs.watch(level="exact") as watch:
            for _ in range(ROUNDS):
                try:
                    result = function(sample.input, *sample.args, **sample.kwargs)
                except Exception:
                    break
                made = [t.grad_fn for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
                nodes = [node for node in made if "AccumulateGrad" not in node.name()]
                without_line += [op.name for node in nodes if watch.line_of(node._sequence_nr()) is None]
            settled += bool(places(watch))
    assert without_line == []
    assert settled > 2

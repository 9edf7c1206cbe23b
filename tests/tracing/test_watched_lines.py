"""Every node of a graph knows the line of the program that made it, at both levels that see lines."""

import linecache
import sys
import threading

import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch import nn

import backsight as bs

both_levels = pytest.mark.parametrize("level", ["lines", "exact"])


def lines_of(watch, graph):
    """(operation, line) of every node that is no leaf, in the order in which they were made."""
    made = [node for node in graph.nodes if node.kind != "leaf"]
    return [(node.op, found.line if (found := watch.line_of(node)) else None) for node in reversed(made)]


def doubled(h):
    return h * 2  # doubled


@both_levels
def test_a_node_is_of_the_innermost_line_of_the_program(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        y = doubled(x) + 1  # plus
        loss = y.exp().sum()  # loss
        graph = bs.graph(loss)
    here = test_a_node_is_of_the_innermost_line_of_the_program
    assert lines_of(watch, graph) == [
        ("Mul", line("doubled", here)),
        ("Add", line("plus", here)),
        ("Exp", line("loss", here)),
        ("Sum", line("loss", here)),
    ]


@both_levels
def test_a_graph_carries_the_lines(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level):
        graph = bs.graph((x * 3).sum())  # times three
    here = f"{__file__}:{line('times three', test_a_graph_carries_the_lines)}"
    assert [node.source for node in graph.nodes] == [here, here, None]


@both_levels
def test_each_line_of_a_statement_over_several_has_its_own(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        loss = (
            x.exp()  # first
            + x.sin()  # second
        ).sum()
        graph = bs.graph(loss)
    told = dict(lines_of(watch, graph))
    here = test_each_line_of_a_statement_over_several_has_its_own
    assert told["Exp"] == line("first", here) and told["Sin"] == line("second", here)
    texts = {watch.line_of(node).text for node in graph.nodes if node.kind != "leaf"}
    assert texts == {"loss = (x.exp() + x.sin()).sum()"}


@both_levels
def test_after_a_call_the_rest_of_a_line_is_the_callers(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        y = doubled(x) - doubled(doubled(x))  # difference
        graph = bs.graph(y)
    here = test_after_a_call_the_rest_of_a_line_is_the_callers
    assert lines_of(watch, graph) == [("Mul", line("doubled", here))] * 3 + [("Sub", line("difference", here))]


@both_levels
def test_comprehensions_generators_and_lambdas(level):
    def powers(h):
        for n in range(2, 4):
            yield h**n  # power

    x = torch.ones(3, requires_grad=True)
    negative = lambda h: -h  # noqa: E731  # negative
    with bs.watch(level=level) as watch:
        parts = [part * 5 for part in powers(x)]  # five
        total = parts[0]
        for part in parts[1:]:
            total = total + part  # total
        graph = bs.graph(negative(total))
    here = test_comprehensions_generators_and_lambdas
    power, five = ("Pow", line("power", here)), ("Mul", line("five", here))
    assert lines_of(watch, graph) == [
        *(power, five, power, five),
        ("Add", line("total", here)),
        ("Neg", line("negative", here)),
    ]


@both_levels
def test_what_a_library_computes_is_of_the_line_that_called_it(level):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with bs.watch(level=level) as watch:
        y = model(torch.ones(1, 2))  # model
        graph = bs.graph(nn.functional.mse_loss(y, y.detach()))  # criterion
    here = test_what_a_library_computes_is_of_the_line_that_called_it
    *inside, loss = lines_of(watch, graph)
    assert {where for _, where in inside} == {line("model", here)}
    assert loss == ("MseLoss", line("criterion", here))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


@both_levels
def test_a_custom_function_is_of_the_line_that_applied_it(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        y = Cube.apply(x)  # apply
        graph = bs.graph(y.sum())
    here = test_a_custom_function_is_of_the_line_that_applied_it
    assert lines_of(watch, graph)[0] == ("Cube", line("apply", here))
    custom = next(node for node in graph.nodes if node.kind == "custom")
    assert custom.source.endswith(f":{line('apply', here)}") and custom.definition != custom.source


@both_levels
def test_an_exception_that_passes_does_not_mislead(level):
    def fails(h):
        h * 2
        raise KeyError

    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        try:
            fails(x)
        except KeyError:
            y = x + 1  # after
        graph = bs.graph(y)
    assert lines_of(watch, graph) == [("Add", line("after", test_an_exception_that_passes_does_not_mislead))]


@both_levels
def test_threads_have_lines_of_their_own(level):
    x, made = torch.ones(3, requires_grad=True), {}

    def work():
        made["result"] = (x * 7).sin()  # in thread
        made["graph"] = bs.graph(made["result"])
        made["thread"] = threading.get_ident()

    with bs.watch(level=level) as watch:
        x.exp().sum()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    here = line("in thread", test_threads_have_lines_of_their_own)
    assert [node.source for node in made["graph"].nodes][:2] == [f"{__file__}:{here}"] * 2
    sine, times, _ = made["graph"].nodes
    assert watch.line_of(sine, made["thread"]).line == watch.line_of(times, made["thread"]).line == here


@both_levels
def test_a_cell_of_a_notebook_has_lines(level):
    source = "def scaled(h):\n    return h * 0.5\n\nloss = scaled(x).sum()\n"
    name = "<ipython-input-7-abcdef>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = {"x": torch.ones(3, requires_grad=True), "__name__": "__main__"}
    with bs.watch(level=level) as watch:
        exec(compile(source, name, "exec"), names)
        graph = bs.graph(names["loss"])
    assert lines_of(watch, graph) == [("Mul", 2), ("Sum", 4)]
    assert watch.line_of(graph.nodes[0]).text == "loss = scaled(x).sum()"


@needs_columns
def test_at_the_exact_level_the_very_expression_is_known():
    params = [torch.ones(2, 2, requires_grad=True)]
    with bs.watch(level="exact") as watch:
        h = torch.ones(1, 2)
        y = (h @ params[0] / 2).sum(dim=0).clamp(min=0)
        graph = bs.graph(y)
    told = {node.op: watch.operation_of(node) for node in graph.nodes if node.kind != "leaf"}
    assert {op: each.line.segment for op, each in told.items()} == {
        "Mm": "h @ params[0]",
        "Div": "h @ params[0] / 2",
        "Sum": "(h @ params[0] / 2).sum(dim=0)",
        "Clamp": "(h @ params[0] / 2).sum(dim=0).clamp(min=0)",
    }
    assert [(each.position, each.text) for each in told["Mm"].operands] == [(0, "h"), (1, "params[0]")]
    assert [each.text for each in told["Clamp"].operands] == ["(h @ params[0] / 2).sum(dim=0)", "0"]


@needs_columns
def test_an_operation_says_through_what_it_was_called():
    layer = nn.Linear(2, 2)
    with bs.watch(level="exact") as watch:
        graph = bs.graph(layer(torch.ones(1, 2)))
    operation = watch.operation_of(graph.nodes[0])
    assert (operation.op, operation.via, operation.operands[0].text) == ("linear", "Linear.forward", "torch.ones(1, 2)")


def test_below_its_level_a_watch_knows_no_lines():
    x = torch.ones(3, requires_grad=True)
    with bs.watch() as watch:
        graph = bs.graph(x * 2)
    assert watch.line_of(graph.nodes[0]) is None and graph.nodes[0].source is None


@both_levels
def test_what_was_made_before_or_after_is_not_known(level):
    x = torch.ones(3, requires_grad=True)
    before = x * 2
    with bs.watch(level=level) as watch:
        (x + 1).sum()
    after = x * 3
    assert [watch.line_of(bs.graph(y).nodes[0]) for y in (before, after)] == [None, None]


@both_levels
def test_a_decorated_function_is_watched_at_every_call(level):
    graphs = []

    @bs.watch(level=level)
    def step(x):
        graphs.append(bs.graph(x * 4))  # decorated
        return x

    for _ in range(2):
        step(torch.ones(3, requires_grad=True))
    where = f"{__file__}:{line('decorated', test_a_decorated_function_is_watched_at_every_call)}"
    assert [graph.nodes[0].source for graph in graphs] == [where, where]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring leaves the dict of locals() alone")
def test_what_a_program_does_to_its_locals_stands():
    class Model:
        def __init__(self, width, depth):
            given = locals()
            del given["self"]
            self.width = width
            self.given = dict(given)

    with bs.watch(level="lines"):
        assert Model(8, 2).given == {"width": 8, "depth": 2}


@both_levels
def test_equal_functions_of_two_files_are_told_apart(level):
    text = "def squared(x):\n    return x * x\n"
    made = {}
    for file in ("first.py", "second.py"):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names = {}
        exec(compile(text, file, "exec"), names)
        with bs.watch(level=level) as watch:
            graph = bs.graph(names["squared"](torch.ones(3, requires_grad=True)))
            made[file] = watch.line_of(graph.nodes[0]).file
    assert made == {"first.py": "first.py", "second.py": "second.py"}

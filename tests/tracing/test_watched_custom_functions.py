"""However a custom Function is written and applied, its node is of the line that applied it, and of its name."""

import functools
import sys

import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch.utils.checkpoint import checkpoint

import backsight as bs


class Function(torch.autograd.Function):
    @staticmethod
    def backward(ctx, *grads):
        return grads[0], *(None for _ in ctx.needs_input_grad[1:])


class Plain(Function):
    @staticmethod
    def forward(ctx, x, factor=3):
        return x * factor


class Separate(Function):
    @staticmethod
    def forward(x):
        return x * 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Inherits(Separate):
    pass


class Decorated(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        return x * 3


class Starred(Function):
    @staticmethod
    def forward(*given):
        return given[1] * 3


class AsItIs(Function):
    @staticmethod
    def forward(ctx, x):
        return x


class Around(Function):
    @staticmethod
    def forward(ctx, x):
        return Plain.apply(x)


class AroundAll(Function):
    @staticmethod
    def forward(ctx, x):
        return Around.apply(x)


alias = AsItIs.apply
exact = functools.partial(pytest.param, marks=needs_columns)

APPLIED = [
    ("Plain", lambda x: Plain.apply(x)),
    ("Plain", lambda x: Plain.apply(x, 4)),
    ("Plain", lambda x: functools.partial(Plain.apply)(x)),
    ("Plain", lambda x: next(map(Plain.apply, [x]))),
    ("Separate", lambda x: Separate.apply(x)),
    ("Decorated", lambda x: Decorated.apply(x)),
    ("Starred", lambda x: Starred.apply(x)),
    ("Around", lambda x: Around.apply(x)),
    ("AroundAll", lambda x: AroundAll.apply(x)),
    ("CheckpointFunction", lambda x: checkpoint(torch.sin, x, use_reentrant=True)),
    exact("Inherits", lambda x: Inherits.apply(x)),
    exact("AsItIs", lambda x: AsItIs.apply(x)),
    exact("AsItIs", lambda x: alias(x)),
]


@pytest.mark.parametrize("name, applied", APPLIED)
def test_a_custom_function_has_its_name_and_the_line_that_applied_it(name, applied):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        y = applied(x.exp()).sum()
        graph = bs.graph(y)
        told = [watch.operation_of(node) for node in graph.nodes if node.kind != "leaf"]
    assert [each.op for each in told] == ["sum", name, "exp"]
    assert told[1].line.line == applied.__code__.co_firstlineno


def test_one_within_another_has_the_line_in_the_others_forward():
    inner = []

    class Within(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                y = Plain.apply(x.detach().requires_grad_())  # within
                inner.append(y)
            return y.detach()

    with bs.watch(level="exact") as watch:
        y = Within.apply(torch.ones(3, requires_grad=True))  # around
        found = [watch.line_of(bs.graph(each).nodes[0]).line for each in (y, inner[0])]
    here = test_one_within_another_has_the_line_in_the_others_forward
    assert found == [line("around", here), line("within", here)]


def test_a_function_defined_while_watched_has_its_line():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        Plain.apply(x)
        Late = type("Late", (Function,), {"forward": staticmethod(lambda ctx, x: x * 3)})
        y = Late.apply(x)  # late
        found = watch.operation_of(bs.graph(y).nodes[0])
    assert (found.op, found.line.line) == ("Late", line("late", test_a_function_defined_while_watched_has_its_line))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="seen by sys.monitoring alone")
def test_a_forward_that_calls_nothing_of_pytorchs_has_its_line():
    made = torch.zeros(3)

    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return made

    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        y = Plain.apply(Constant.apply(x))  # constant
        nodes = bs.graph(y).nodes[:2]
        found = [watch.operation_of(node) for node in nodes]
    here = line("constant", test_a_forward_that_calls_nothing_of_pytorchs_has_its_line)
    assert [(each.op, each.line.line) for each in found] == [("Plain", here), ("Constant", here)]


def test_a_transform_of_torch_func_does_not_mislead():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        y = x.exp()  # before
        torch.func.grad(lambda a: Separate.apply(a).sum())(x.detach())
        z = (y * 2).sum()  # after
        found = [watch.line_of(node).line for node in bs.graph(z).nodes if node.kind != "leaf"]
    here = test_a_transform_of_torch_func_does_not_mislead
    assert found == [line("after", here)] * 2 + [line("before", here)]

"""Where a gradient's way ends: which cut comes before which, and where it arrives."""

from __future__ import annotations

import linecache
import textwrap

import pytest
import torch

from backsight.story.cuts import along, cuts, met_in
from backsight.story.failure import failure_of
from backsight.story.trained import trained

HEAD = """
import torch
model = torch.nn.Linear(3, 3)
other = torch.nn.Linear(3, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 3)
"""


def failed(source):
    text = HEAD + textwrap.dedent(source)
    name = f"cuts_{len(linecache.cache)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    with pytest.raises(RuntimeError) as caught:
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    return failure_of(caught.value)


def found(source, **wanted):
    failure = failed(source)
    return cuts(failure, trained(failure), **wanted)


def told(every):
    return [each.cut.expression for each in every]


def test_what_a_gradient_meets_first_comes_first_and_is_known_to_come_before():
    near, far = found("""
        def encode(x):
            return model(x).detach()
        def loss_of(z):
            z = z.detach()
            return z.sum()
        loss_of(encode(x)).backward()
    """)
    assert told([near, far]) == ["z.detach()", "model(x).detach()"]
    assert far.before == (near.cut,)
    assert far.arrives and not near.arrives
    assert told(along(near, [near, far])) == told([far])
    assert told(along(far, [near, far])) == told([near])


def test_a_cut_beside_another_is_not_on_its_way():
    first, second = found("(model(x).detach() + other(x).data).sum().backward()")
    assert not first.before and not second.before
    assert along(first, [first, second]) == []


def test_modules_of_a_list_are_met_from_the_last_to_the_first():
    every = found("""
        class Sign(torch.nn.Module):
            def forward(self, x):
                return x > 0
        class Stop(torch.nn.Module):
            def forward(self, x):
                return x.detach()
        stages = torch.nn.ModuleList([model, Stop(), Sign()])
        for stage in stages:
            x = stage(x)
        x.float().sum().backward()
    """)
    assert told(every) == ["x > 0", "x.detach()"]
    assert every[1].before == (every[0].cut,)


def test_a_branch_that_a_flag_of_the_module_has_ruled_out_cuts_nothing():
    source = """
        class Net(torch.nn.Module):
            def __init__(self, stop):
                super().__init__()
                self.stop = stop
            def forward(self, x):
                if self.stop:
                    x = x.detach()
                return x.argmax(1).float()
        net = Net(STOP)
        net(model(x)).sum().backward()
    """
    assert told(found(source.replace("STOP", "False"))) == ["x.argmax(1)"]
    assert told(found(source.replace("STOP", "True"))) == ["x.argmax(1)", "x.detach()"]


def test_what_is_read_of_closures_attributes_and_properties_is_followed():
    every = found("""
        class Holder:
            def keep(self, z):
                self.z = z.detach()
            @property
            def double(self):
                return 2 * self.z
        holder = Holder()
        holder.keep(model(x))
        def outer():
            shared = other(x).data
            def loss():
                return (shared + holder.double).sum()
            loss().backward()
        outer()
    """)
    assert told(every) == ["other(x).data", "z.detach()"]


def test_only_what_lies_on_the_way_to_some_tensors_is_told():
    failure = failed("""
        a, b = model(x).detach(), other(x).detach()
        (a + b).sum().backward()
    """)
    held = failure.users[0].value("other")
    assert told(cuts(failure, trained(failure), of=list(held.parameters()))) == ["other(x).detach()"]


@pytest.mark.parametrize(
    ("decorator", "cut"), [("torch.inference_mode()", ["torch.inference_mode()"]), ("torch.no_grad()", [])]
)
def test_enable_grad_ends_no_grad_and_not_inference_mode(decorator, cut):
    every = found(f"""
        @{decorator}
        def score(x):
            with torch.enable_grad():
                return model(x)
        (score(x) + torch.zeros(2, 3)).detach().sum().backward()
    """)
    assert told(each for each in every if each.cut.kind == "no_grad") == cut


def test_a_watch_has_seen_what_cut_a_graph_off_from_a_leaf():
    import backsight as bs
    from backsight.snapshot import survey

    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    with bs.watch(level="exact"):
        out = (w.detach() * v).sum()
        graph = survey((out,)).graph
        assert [cut.cut.kind for cut, _ in met_in(graph, [w])] == ["detach"]
        assert list(met_in(graph, [v])) == []

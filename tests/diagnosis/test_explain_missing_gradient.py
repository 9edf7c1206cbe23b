"""BS213: a gradient that is None where it is used, and the errors about None that are none of our business."""

from contextlib import nullcontext

import pytest
from failures import at, evidence, explained, failing

import backsight as bs

SETUP = """
from torch import nn
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
"""


class TestResultsOfComputations:
    SOURCE = """
w = torch.randn(3, requires_grad=True) * 0.1  # here
(w * 2).sum().backward()
w.grad.norm()
"""

    def test_the_statement_that_computed_it_is_named_and_rewritten(self):
        finding = explained(self.SOURCE)
        assert finding.code == "BS213"
        assert finding.title == ("w.grad is None: w is a non-leaf tensor, and backward() sets .grad on leaves only.")
        assert finding.source == at(self.SOURCE)
        assert finding.fix == (
            "Make it a leaf by setting requires_grad last: "
            "on line 1, write `w = (torch.randn(3) * 0.1).requires_grad_()`."
        )
        assert finding.exact

    def test_what_has_to_be_computed_is_told_to_keep_its_gradient(self):
        finding = explained(f"{SETUP}h = model[0](x)\nmodel[1](h).sum().backward()\nh.grad.norm()\n")
        told = "Call h.retain_grad() right after it is computed, before backward(): put `h.retain_grad()` below line 4."
        assert finding.fix.startswith(told)

    SEARCHED = """
def begun(size):
    return bounded(torch.rand(size)).requires_grad_()
def bounded(noise):
    return noise.clamp(0.1, 0.9)
def search(goal, aside=0.0):
    noise = begun(4)
    for k in COUNTED:
        loss = (noise - goal).pow(2).sum()
        loss.backward()
        READ
        noise = bounded(noise - 0.1 * slope)  # here
    return noise
search(0.5)
"""

    @pytest.mark.parametrize("level", [None, "lines", "exact"])
    @pytest.mark.parametrize("counted", ["range(3)", "[3, 2, 1]"])
    def test_what_a_loop_makes_anew_of_itself_was_made_there(self, counted, level):
        source = self.SEARCHED.replace("COUNTED", counted).replace("READ", "slope = noise.grad.sign()")
        with bs.watch(level=level) if level else nullcontext():
            finding = explained(source)
        assert finding.source == at(source)
        assert finding.fix == (
            "Make it a leaf by setting requires_grad last: "
            "on line 11, write `noise = bounded(noise - 0.1 * slope).detach().requires_grad_()`."
        )

    def test_one_of_two_that_a_loop_makes_anew_is_given_its_own_value(self):
        source = """
w, b = torch.ones(3, requires_grad=True), torch.zeros(1, requires_grad=True)
for step in range(2):
    (w * 2 + b).sum().backward()
    w, b = w - 0.1 * w.grad, b - 0.1 * b.grad  # here
"""
        finding = explained(source)
        assert at(source) in evidence(finding)
        assert finding.fix.endswith("on line 4, write `w = (w - 0.1 * w.grad).detach().requires_grad_()`.")

    def test_what_failed_in_the_first_iteration_was_made_before_it(self):
        source = self.SEARCHED.replace("COUNTED", "range(3)").replace("READ", "slope = noise.grad.sign()")
        source = source.replace("  # here", "").replace("noise = begun(4)", "noise = begun(4) * 2  # here")
        assert explained(source).source == at(source)

    def test_what_was_left_out_in_the_first_iteration_proves_nothing(self):
        source = self.SEARCHED.replace("COUNTED", "range(3)").replace("READ", "slope = aside = noise.grad.sign()")
        source = source.replace("loss = (", "if k == 0: continue\n        loss = (")
        source = source.replace("  # here", "").replace("noise = begun(4)", "noise = begun(4) * 2  # here")
        assert explained(source).source == at(source)

    def test_the_value_of_the_iteration_before_keeps_its_gradient(self):
        source = """
def run(w):
    last = w
    for k in range(3):
        h = w * (k + 1)
        (h * 2).sum().backward()
        size = last.grad.norm()
        last = h  # here
run(torch.ones(3, requires_grad=True))
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert finding.fix.startswith("Call last.retain_grad() right after it is computed")


class TestWhatDoesNotRequireGrad:
    def test_an_input_is_told_to_ask_for_it(self):
        source = f"""{SETUP.replace("x = torch.randn(5, 4)", "x = torch.randn(5, 4)  # here")}
model(x).sum().backward()
x.grad.norm()
"""
        finding = explained(source)
        assert finding.title == "x.grad is None: x does not require grad."
        assert finding.source == at(source)
        assert "x.requires_grad_() before computing anything from it" in finding.fix

    def test_a_frozen_parameter(self):
        finding = explained(
            f"{SETUP}model[0].weight.requires_grad_(False)\nmodel(x).sum().backward()\nmodel[0].weight.grad.norm()\n"
        )
        assert finding.title == "model[0].weight.grad is None: model[0].weight does not require grad."


class TestWhenItIsRead:
    def test_after_zero_grad(self):
        source = f"""{SETUP}
model(x).sum().backward()
model.zero_grad()  # here
[p.grad.norm() for p in model.parameters()]
"""
        finding = explained(source)
        assert finding.title == "model.0.weight.grad is None: zero_grad() set it to None."
        assert finding.source == at(source)
        assert finding.fix.startswith("Read the gradients between backward() and zero_grad(): move line 6, ")

    def test_before_backward(self):
        source = f"""{SETUP}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(x).sum()
optimizer.zero_grad()
model[0].weight.grad.norm()  # here
loss.backward()
"""
        finding = explained(source)
        assert finding.title == "model[0].weight.grad is None: it is read before backward() sets it."
        assert finding.source == at(source)
        assert "below " in finding.fix

    def test_a_watch_knows_that_no_backward_has_run(self):
        with bs.watch(level="lines"):
            finding = explained(f"{SETUP}loss = model(x).sum()\nmodel[0].weight.grad.norm()\n")
        assert finding.title == "model[0].weight.grad is None: it is read before backward() sets it."


class TestWhatTheLossDoesNotReach:
    def test_a_detached_part(self):
        source = f"""{SETUP}
h = model[0](x).detach()  # here
model[1](h).sum().backward()
for p in model.parameters():
    p.grad.clamp_(-1, 1)
"""
        finding = explained(source)
        assert finding.title == "model.0.weight.grad is None: no backward() has reached model.0.weight."
        assert "Other parameters have one." in evidence(finding)
        assert finding.exact

    def test_the_first_of_a_list_that_has_none(self):
        finding = explained(
            "ws = [torch.ones(3, requires_grad=True) for _ in range(2)]\n"
            "(ws[0] * 2).sum().backward()\n"
            "torch.stack([w.grad for w in ws])\n"
        )
        assert finding.title == "ws[1].grad is None: no backward() has reached ws[1]."

    def test_a_gradient_in_a_variable(self):
        finding = explained("w = torch.ones(3, requires_grad=True)\ng = w.grad\n0.1 * g\n")
        assert finding.code == "BS213"
        assert finding.source == "train.py:2"


class TestWhatOnlyClears:
    def test_nothing_is_to_be_cleared_where_a_parameter_is_frozen(self):
        finding = explained(f"""{SETUP}
model[0].requires_grad_(False)
model(x).sum().backward()
for p in model.parameters():
    p.grad.detach_()
    p.grad.zero_()
""")
        assert finding.title == "model.0.weight.grad is None: there is no gradient to detach."
        assert finding.fix.startswith(
            "On line 8, write `if p.grad is not None: p.grad.detach_()`. Line 9 needs the same."
        )

    def test_a_comprehension_gets_the_condition_alone(self):
        finding = explained(f"{SETUP}[p.grad.data.fill_(0) for p in model.parameters()]\nmodel(x).sum().backward()\n")
        assert finding.title == "model.0.weight.grad is None: there is no gradient to zero."
        assert finding.fix.startswith("Skip what has no gradient: `if p.grad is not None`.")

    def test_a_backward_that_reached_nothing_is_the_mistake(self):
        source = """
w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
loss = (w.detach() * v).sum()  # here
loss.backward()
w.grad.zero_()
"""
        assert explained(source).source == at(source)

    def test_a_value_that_is_not_zero_is_needed(self):
        finding = explained(f"{SETUP}for p in model.parameters():\n    p.grad.mul_(0.5)\nmodel(x).sum().backward()\n")
        assert finding.title.endswith("it is read before backward() sets it.")


@pytest.mark.parametrize(
    "source",
    [
        "name = None\nname.upper()",
        "w = torch.ones(3, requires_grad=True)\ng = w.grad\nname = None\nname.upper()",
        "w = torch.ones(3, requires_grad=True)\n{}.get('a').mul(w.grad)",
        "w = torch.ones(3, requires_grad=True)\n(w * 2).sum().backward()\nother = None\nw.grad.add_(other)",
        "class Config:\n    grad = None\nConfig().grad.norm()",
        "from torch import nn\nnn.Linear(2, 2, bias=False).bias.grad",
        "raise TypeError('NoneType')",
    ],
)
def test_other_errors_about_none_are_left_alone(source):
    error = failing(source)
    assert bs.explain(error).code == "BS200"
    with pytest.raises(type(error)), bs.explaining() as explaining:
        raise error
    assert all(each.code == "BS200" for each in explaining.findings)


def test_nothing_of_the_users_is_evaluated():
    source = """
class Model:
    @property
    def weight(self):
        raise AssertionError("a property was evaluated")

    def __getattr__(self, name):
        raise AssertionError("an attribute was looked up")

def read(model):
    None.grad.norm(model.weight.grad)
read(Model())
"""
    assert bs.explain(failing(source)).code == "BS200"


def test_all_that_a_statement_detaches_on_the_way_is_attached_at_once():
    source = """
w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
loss = (w.detach() * (w * w).detach() + v).sum()
loss.backward()
w.grad.norm()
"""
    assert "write `loss = (w * (w * w) + v).sum()`, without .detach()." in explained(source).fix


def test_all_that_detaches_the_result_of_a_module_is_named():
    source = f"{SETUP}loss = (model(x).detach() * model(-x).detach() + x.sum().requires_grad_()).sum()\n"
    fix = explained(f"{source}loss.backward()\nmodel[0].weight.grad.norm()\n").fix
    assert "On line 4, write `loss = (model(x) * model(-x) + x.sum().requires_grad_()).sum()`" in fix

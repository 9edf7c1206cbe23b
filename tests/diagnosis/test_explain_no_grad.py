"""BS203: which statement left a loss without a history, in programs as people write them."""

import ast
import contextlib

import pytest
import torch
from failures import at, evidence, explained
from setups import CLASSIFIER as SETUP

import backsight as bs
from backsight.tracing import sites

# The statement that cuts, what the title must name, and what the fix must.
CUTS = {
    "predicted = logits.argmax(dim=1)\nloss = (predicted.float() - labels).pow(2).mean()": (
        "logits.argmax(dim=1)",
        "write loss = torch.nn.functional.cross_entropy(logits, labels)",
    ),
    "_, predicted = logits.max(dim=1)\nloss = (predicted != labels).float().mean()": (
        "logits.max(dim=1)",
        "Compute the loss from logits itself",
    ),
    "loss = (logits > 0).float().mean()": ("logits > 0", "write `loss = torch.sigmoid(logits).mean()`."),
    "loss = F.cross_entropy(logits.detach(), labels)": (
        "logits.detach()",
        "cross_entropy(logits, labels)`, without .detach()",
    ),
    "loss = F.cross_entropy(logits.data, labels)": (
        "logits.data",
        "cross_entropy(logits, labels)`, without .data",
    ),
    "loss = logits.long().sum()": (
        "logits.long()",
        "write `loss = (logits + (logits.long() - logits).detach())",
    ),
    "loss = torch.tensor(F.cross_entropy(logits, labels).item())": (
        "F.cross_entropy(logits, labels).item()",
        "write `loss = F.cross_entropy(logits, labels)`, without .item()",
    ),
    "loss = torch.from_numpy(logits.detach().numpy()).mean()": ("logits.detach().numpy()", "Stay in PyTorch"),
    "loss = torch.tensor([float(F.cross_entropy(logits, labels))]).mean()": (
        "float(F.cross_entropy(logits, labels))",
        "write `loss = torch.stack([F.cross_entropy(logits, labels)]).mean()`, without float()",
    ),
}


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")
class TestExpressionsThatCut:
    @pytest.mark.parametrize("lines", CUTS)
    def test_is_named_with_its_line_and_fix(self, lines):
        named, fix = CUTS[lines]
        source = f"{SETUP}logits = model(x)\n{lines}\nloss.backward()\n"
        finding = explained(source)
        assert finding.code == "BS203"
        assert finding.title == f"loss does not require grad: {named} detached it from the graph."
        assert finding.source == at(source, named)
        assert fix in finding.fix
        assert finding.exact

    @pytest.mark.parametrize("lines", CUTS)
    def test_silencing_the_error_is_never_the_fix(self, lines):
        finding = explained(f"{SETUP}logits = model(x)\n{lines}\nloss.backward()\n")
        assert finding.fix.endswith("loss.requires_grad_() would only silence the error: nothing would be trained.")

    @pytest.mark.parametrize(
        ("imported", "grad"),
        [
            ("from torch.autograd import grad", "grad"),
            ("from torch.autograd import grad as derive", "derive"),
            ("import torch.autograd as ag", "ag.grad"),
            ("from torch import autograd", "autograd.grad"),
        ],
    )
    def test_a_gradient_without_a_graph_is_blamed_by_any_name_and_a_detach_beside_it_is_not(self, imported, grad):
        source = f"""{imported}
{SETUP}
x = x.requires_grad_()
target = model(x).mean().detach()
slope = {grad}(model(x).sum(), x)[0]  # here
loss = (slope.norm() - target) ** 2
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert f"write `slope = {grad}(model(x).sum(), x, create_graph=True)[0]`" in finding.fix

    def test_the_variable_that_had_a_history_is_evidence(self):
        finding = explained(f"{SETUP}logits = model(x)\nloss = logits.detach().sum()\nloss.backward()\n")
        assert "logits is attached to a graph; the result is not." in evidence(finding)

    def test_what_was_cut_off_but_had_no_history_is_not_blamed(self):
        source = f"""{SETUP}
targets = F.one_hot(labels.argsort().argsort() % 3, 3).float().detach()
logits = model(x).detach()  # here
loss = F.mse_loss(logits, targets)
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "targets" not in evidence(finding)

    def test_a_teacher_that_no_optimizer_trains_is_not_blamed(self):
        source = f"""{SETUP}
teacher = nn.Linear(4, 3)
with torch.no_grad():
    target = teacher(x)
loss = F.mse_loss(model(x).detach(), target)  # here
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "no_grad" not in evidence(finding)

    def test_a_target_that_was_detached_on_purpose_is_not_blamed_for_a_function_that_cuts(self):
        source = f"""{SETUP}
def difference(out, target):
    return (out.argmax(dim=1).float() - target).mean()  # here

target = model(x).detach().argmax(dim=1)
out = model(x)
loss = difference(out, target)
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "out.argmax(dim=1) detached it from the graph" in finding.title
        assert not finding.exact

    def test_a_module_of_the_users_that_cuts(self):
        source = f"""{SETUP}
class Loss(nn.Module):
    def forward(self, out, target):
        return (out.round().long() - target).float().mean()  # here

criterion = Loss()
target = model(x).detach()
loss = criterion(model(x), target.long())
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)

    def test_numbers_in_a_list_made_into_a_tensor_again(self):
        source = f"""{SETUP}
def average(logits):
    losses = []
    for row in logits:
        losses.append(row.sum().item())  # here
    return torch.tensor(losses).mean()

loss = average(model(x))
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "row.sum().item() detached it" in finding.title
        assert "return torch.tensor(losses).mean()\n    torch.tensor() copies the values" in evidence(finding)
        assert "replace torch.tensor(losses) with torch.stack(losses)" in finding.fix

    @pytest.mark.parametrize(
        ("kept", "gathered", "joined"),
        [
            ("row.sum().item()", "torch.tensor([each for each in sums])", "torch.stack(sums)"),
            (
                "row.sum().item()",
                "torch.tensor([2 * each for each in sums])",
                "torch.stack([2 * each for each in sums])",
            ),
            ("row.sum()", "torch.tensor([k * each for k, each in enumerate(sums)])", None),
            ("row.sum()", "torch.tensor([each for each in sums if each is not None])", None),
        ],
    )
    def test_what_gathers_them_is_kept(self, kept, gathered, joined):
        source = f"""{SETUP}
def average(logits):
    sums = []
    for row in logits:
        sums.append({kept})
    return {gathered}.mean()

loss = average(model(x))
loss.backward()
"""
        joined = ast.unparse(ast.parse(joined or gathered.replace("torch.tensor", "torch.stack")))
        fix = explained(source).fix
        assert f"eplace {gathered} with {joined}" in fix or f"Write {joined} there" in fix

    def test_in_a_method_of_the_model_that_has_returned(self):
        source = """
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, x):
        return self.net(x).data  # here

    def training_step(self, x):
        return self(x).mean()

model = Model()
loss = model.training_step(torch.randn(4, 3))
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "self.net(x).data" in finding.title
        assert not finding.exact
        assert [each.certainty for each in finding.evidence] == ["read", "held"]

    def test_an_argument_is_not_taken_for_a_global_of_the_same_name(self):
        source = f"""{SETUP}
def error(out):
    return torch.tensor(out.detach().numpy().mean())  # here

out = torch.zeros(3)
loss = error(model(x))
loss.backward()
"""
        assert explained(source).source == at(source)


class TestNothingRequiresGrad:
    def test_every_parameter_is_frozen(self):
        source = """
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
for parameter in model.parameters():
    parameter.requires_grad = False  # here

def step(x):
    loss = model(x).mean()
    loss.backward()

step(torch.randn(4, 3))
"""
        finding = explained(source)
        assert finding.title == "loss does not require grad: none of the 4 parameters of model does."
        assert finding.source == at(source)
        assert "model.requires_grad_(True)" in finding.fix
        assert finding.exact

    def test_frozen_in_the_constructor(self):
        source = """
class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(3, 1)
        self.model.requires_grad_(False)  # here

    def step(self, x):
        loss = self.model(x).mean()
        loss.backward()

Trainer().step(torch.randn(4, 3))
"""
        finding = explained(source)
        assert "self.model" in finding.title
        assert finding.source == at(source)

    def test_tensors_that_nobody_asked_a_gradient_for(self):
        finding = explained(
            """
            x, y = torch.randn(10, 3), torch.randn(10)
            w = torch.zeros(3)
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            """
        )
        assert finding.title == "loss does not require grad: it is computed from x, w and y, and none of them does."
        assert finding.fix.endswith("w = torch.zeros(3, requires_grad=True).")
        assert not finding.exact

    def test_the_input_of_autograd_grad(self):
        source = """
net = torch.nn.Linear(1, 1)
x = torch.rand(5, 1)  # here
u = net(x)
u_x = torch.autograd.grad(u.sum(), x)
"""
        finding = explained(source)
        assert finding.code == "BS203"
        assert finding.title == "x does not require grad, so nothing was recorded for it."
        assert finding.source == at(source)
        assert "Call x.requires_grad_() below line 2, x = torch.rand(5, 1);" in finding.fix
        assert finding.exact

    def test_the_one_of_several_losses_that_has_no_history(self):
        source = f"""{SETUP}
first = F.cross_entropy(model(x), labels)
second = F.cross_entropy(model(x).detach(), labels)  # here
torch.autograd.backward([first, second])
"""
        finding = explained(source)
        assert finding.title.startswith("second does not require grad: ")
        assert finding.source == at(source)


class TestReentrantCheckpoints:
    @pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
    def test_with_plain_inputs_record_nothing(self):
        source = f"""{SETUP}
from torch.utils.checkpoint import checkpoint
logits = checkpoint(model, x, use_reentrant=True)  # here
loss = F.cross_entropy(logits, labels)
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "a checkpoint whose inputs do not require grad" in finding.title
        assert "write `logits = checkpoint(model, x, use_reentrant=False)`" in finding.fix

    def test_of_a_transformers_model(self):
        source = f"""{SETUP}
model.gradient_checkpointing = True
loss = criterion(model(x))  # whose layers were checkpointed inside of a library
loss.backward()
"""
        finding = explained(source, criterion=lambda output: output.sum().detach())
        assert "enable_input_require_grads()" in finding.fix


class TestSumsOfNothing:
    def test_a_loop_that_never_ran(self):
        source = f"""{SETUP}
total = torch.tensor(0.0)  # here
for batch in []:
    total = total + model(batch).sum()
total.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert finding.title == (
            "total does not require grad: it is still its initial constant; nothing was ever added to it."
        )
        assert "if total.requires_grad: total.backward()" in finding.fix
        assert not finding.exact

    def test_a_sum_that_was_added_to_is_none(self):
        source = f"""{SETUP}
total = torch.tensor(0.0)
for batch in [x]:
    total = total + model(batch).sum().detach()  # here
total.backward()
"""
        assert explained(source).source == at(source)

    def test_a_watch_makes_it_exact(self):
        source = f"""{SETUP}
total = torch.zeros(())  # here
if len(x) > 1000:
    total = total + model(x).sum()
total.backward()
"""
        with bs.watch(level="exact"):
            finding = explained(source)
        assert finding.source == at(source)
        assert finding.exact

    @pytest.mark.parametrize("cut", ["detach()", "data"])
    def test_a_watch_that_knows_the_line_alone_names_the_operation(self, monkeypatch, cut):
        known = sites.positions
        monkeypatch.setattr(sites, "positions", lambda site: (known(site)[0], known(site)[0], -1, -1))  # Python 3.10
        source = f"""{SETUP}
class Metric:
    def __call__(self, prediction, target):
        return F.mse_loss(prediction.{cut}, target)

metrics = {{"mse": Metric()}}
loss = sum(metrics[name](model(x).sum(-1), labels.float()) for name in ["mse"])
loss.backward()
"""
        with bs.watch(level="exact"):
            finding = explained(source)
        assert finding.fix.startswith(f"Use the values, without .{cut}: that is for logging")


class TestWhereTheCauseIsNotFound:
    def test_code_without_source(self):
        finding = explained(f"{SETUP}loss = model(x).argmax().float()\nloss.backward()\n", readable=False)
        assert finding.code == "BS203"
        assert "The source of this code is not available, so what detached it is unknown." in finding.evidence
        assert not finding.exact

    def test_integers_are_named_as_such(self):
        finding = explained("def count(): return eval('torch.tensor(3)')\nloss = count()\nloss.backward()\n")
        assert "loss: int64 scalar, and integers and booleans never require grad." in finding.evidence


def test_the_program_can_go_on_after_the_explanation():
    x = torch.ones(2, requires_grad=True)
    try:
        x.detach().sum().backward()
    except RuntimeError as error:
        bs.explain(error)
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_block_on_one_line_holds_what_stands_on_it_and_nothing_else():
    source = f"""{SETUP}
def trainer(model):
    while True:
        loss = model(x).mean()
        loss.backward()
        yield

steps = trainer(model)
next(steps)
with torch.no_grad(): next(steps)
"""
    finding = explained(source)
    assert finding.source == at(source, "with torch.no_grad()")
    assert "runs inside" not in evidence(finding) and "Compute the loss outside the" in finding.fix


def test_a_function_that_fails_on_what_it_returned_before_is_looked_at_as_it_returned():
    source = f"""{SETUP}
def slope(output, point):
    (found,) = torch.autograd.grad(output.sum(), point)
    return found

point = torch.rand(10, 1, requires_grad=True)
tension = slope(point.sin(), point)
force = slope(tension, point)
"""
    finding = explained(source)
    assert finding.source == at(source, "    (found,) = torch.autograd.grad")
    assert "create_graph=True" in finding.fix


def test_what_another_loss_is_computed_from_is_not_called_unused():
    source = """
        model, frozen = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1).requires_grad_(False)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def losses(x):
            score = model(x)
            other = frozen(x).mean()
            return other, score.mean()

        loss, second = losses(torch.ones(4, 2))
        second.backward()
        loss.backward()
    """
    finding = explained(source)
    assert finding.code == "BS203" and "does not use" not in finding.title


class TestOtherCallsOfADecoratedFunction:
    BOTH = """
model = torch.nn.Linear(3, 2)
@torch.no_grad()
def embed(x):
    return model(x)
def step(a, b):
    one = embed(a)
    two = OTHER
    loss = LOSS
    loss.backward()
step(torch.ones(4, 3), torch.ones(4, 3))
"""

    def fix(self, other, loss):
        return explained(f"import torch\n{self.BOTH.replace('OTHER', other).replace('LOSS', loss)}").fix

    def test_one_that_is_trained_as_well_keeps_its_gradient(self):
        assert "around" not in self.fix("embed(b)", "(one * two).sum()")

    def test_a_target_stays_without(self):
        told = self.fix("0.9 * embed(b)", "torch.nn.functional.mse_loss(one, two)")
        assert "put `with torch.no_grad():` around the call whose result is a target" in told
        assert "`two = 0.9 * embed(b)`" in told

    def test_one_inside_a_block_already_is_not_told(self):
        source = self.BOTH.replace("    two = OTHER\n", "    with torch.no_grad():\n        two = embed(b)\n")
        told = explained(f"import torch\n{source.replace('LOSS', '(one - two).square().sum()')}").fix
        assert told.startswith("Remove @torch.no_grad() from embed; ")


# A statement that cuts twice on the way to the loss, and the one that must be written instead.
SEVERAL = {
    "first, second = model(x).detach(), model(-x).detach()\nloss = (first * second).sum()": (
        "first, second = model(x), model(-x)"
    ),
    "loss = F.mse_loss(model(x).detach(), model(-x).detach() + 1)": "loss = F.mse_loss(model(x), model(-x) + 1)",
    "loss = model(x).detach().sum() * model(x).detach().mean()": "loss = model(x).sum() * model(x).mean()",
    "logits, size = model(x), model.weight.norm()\nloss = logits.detach().sum() * size.item()": (
        "loss = logits.sum() * size"
    ),
    "parts = [model(x).detach(), model(-x).data]\nloss = torch.stack(parts).sum()": "parts = [model(x), model(-x)]",
}


class TestSeveralCutsOfOneStatement:
    @pytest.mark.parametrize("level", [None, "exact"])
    @pytest.mark.parametrize("lines", SEVERAL)
    def test_are_taken_back_at_once(self, lines, level):
        source = f"{SETUP}{lines}\nloss.backward()\n"
        with bs.watch(level=level) if level else contextlib.nullcontext():
            assert f"write `{SEVERAL[lines]}`, without" in explained(source).fix

    def test_in_a_function_that_has_returned(self):
        source = f"""{SETUP}
def adapted(w, b):
    fast, bias = w.detach(), b.detach()  # here
    return (fast * x[:3].T).sum() + bias.sum()

loss = adapted(model.weight.T, model.bias)
loss.backward()
"""
        assert "write `fast, bias = w, b`, without .detach()" in explained(source).fix

    def test_a_target_beside_stays_detached(self):
        source = f"""{SETUP}
logits = model(x)
loss = F.mse_loss(logits.detach(), F.one_hot(labels, 3).float().detach())
loss.backward()
"""
        assert "write `loss = F.mse_loss(logits, F.one_hot(labels, 3).float().detach())`" in explained(source).fix

    def test_what_both_functions_return_is_said_once(self):
        found = explained(f"{SETUP}a, b = model(x).detach(), model(-x).detach()\nloss = (a * b).sum()\nloss.backward()")
        assert evidence(found).count("detached from the graph") == 1


WAITS = """
def batches(number):
    with torch.no_grad():
        for _ in range(number):
            part = torch.randn(5, 4)
            {inside}
        {outside}


for part in batches(2):
    loss = {loss}
    loss.backward()
"""


class TestGeneratorsThatWaitInABlock:
    """What a generator leaves open while it waits is open for who runs it; what it has closed is not."""

    def test_is_named(self):
        finding = explained(SETUP + WAITS.format(inside="yield part", outside="pass", loss="model(part).sum()"))
        assert "batches() yields inside torch.no_grad()" in finding.title
        assert finding.exact

    @pytest.mark.parametrize("loss", ["model(part).detach().sum()", "torch.zeros(()) + part.sum()"])
    def test_one_that_yields_outside_is_not(self, loss):
        source = WAITS.format(inside="made = part", outside="pass\n    yield made", loss=loss)
        assert "yields inside" not in explained(SETUP + source).title

    def test_a_decorated_one_is_not(self):
        source = WAITS.format(inside="yield part", outside="pass", loss="model(part).detach().sum()")
        decorated = source.replace("def batches", "@torch.no_grad()\ndef batches")
        assert "detached it" in explained(SETUP + decorated).title

    @pytest.mark.parametrize("context", ["torch.set_grad_enabled(number > 1)", "torch.enable_grad()"])
    def test_one_whose_block_may_enable_them_is_not(self, context):
        source = WAITS.format(inside="yield part", outside="pass", loss="model(part).detach().sum()")
        assert "yields inside" not in explained(SETUP + source.replace("torch.no_grad()", context)).title

    def test_one_that_is_not_run_is_not(self):
        source = WAITS.format(inside="yield part", outside="pass", loss="model(part).detach().sum()")
        counted = source.replace("in batches(2)", "in [x for _ in range(len([*batches(2)]))]").replace("part)", "x)")
        assert "detached it" in explained(SETUP + counted).title

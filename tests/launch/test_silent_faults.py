"""`backsight run` on trainings that go wrong and raise nothing, and on their neighbours that are in order."""

import re

import pytest
from columns import needs_columns
from silent_faults import FAULTS, HEAD
from silent_healthy import HEALTHY


def said(bench, source):
    bench.write("train.py", HEAD + source.lstrip("\n"))
    ended = bench.at_once.observed("train.py")
    assert ended.status == 0, ended.err
    return ended.err


told = {}


def said_of(bench, name):
    """What is said of a fault, which several tests read."""
    if name not in told:
        told[name] = said(bench, FAULTS[name])
    return told[name]


NEED_COLUMNS = frozenset(
    {
        "BS132 the advantage has its graph",
        "BS132 an advantage of values that were gathered",
        "BS132 differences of single steps, put together",
    }
)
"""The faults that are told by an expression in their line."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=needs_columns) if each in NEED_COLUMNS else each for each in FAULTS]
)
def test_a_silent_fault_is_told_once_with_its_line(bench, name):
    err = said_of(bench, name)
    line = next(number for number, text in enumerate(f"{HEAD}{FAULTS[name].lstrip()}".splitlines(), 1) if "#!" in text)
    assert re.findall(r"^warning (BS\d+)", err, re.MULTILINE) == re.findall(r"BS\d+", name), err
    assert f"train.py:{line}" in err


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_training_that_is_in_order(bench, name):
    assert "nothing found" in said(bench, HEALTHY[name])


@needs_columns
def test_a_straight_through_estimator_is_not_to_be_taken_apart(bench):
    err = said_of(bench, "BS102 a codebook that only its estimator uses")
    assert "fix: Use q itself in a loss term, not z + (q - z).detach()" in err
    assert "Remove" not in err


def test_custom_functions_are_said_to_be_untested(bench):
    source = """
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))

layer = nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for step in range(5):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(Swish.apply(layer(x)), y).backward()
    optimizer.step()
"""
    err = said(bench, source)
    assert "nothing found" in err
    assert "the backward of Swish was not tested. To test it: backsight verify train.py" in err


def test_a_statement_whose_result_is_dropped_is_the_programs_own(bench):
    source = """
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})

asked = []
own, x = torch.ones(2).as_subclass(Own), torch.ones(2)
own.detach()
try:
    x.to("nowhere")
except RuntimeError:
    print(asked)
"""
    bench.write("train.py", HEAD + source.lstrip("\n"))
    ended = bench.observed("train.py")
    assert ended.out == bench.python("train.py").out
    assert "stopped watching" not in ended.err and "BS146" not in ended.err


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("BS124 clipped before the backward", "Move line 23 between `loss.backward()` and `opt.step()`."),
        (
            "BS101 adapters that are put in after the optimizer",
            "Create optimizer after this: move line 44 below line 45.",
        ),
        (
            "BS101 a body that is unfrozen after an optimizer of what was trainable",
            "Unfreeze before you create opt, or add what you unfreeze later: opt.add_param_group({'params': ...}). "
            "Or create opt from model.parameters(): it skips what has no gradient.",
        ),
        ("BS103 a closure that zeroes nothing", "Call solver.zero_grad() in closure() before backward()."),
        (
            "BS102 experts that are chosen by the greatest of their probabilities",
            "Use probs itself, or mix + probs - probs.detach() to keep the choice and pass on its gradient if",
        ),
        (
            "BS121 features that a hook keeps without their graph",
            "Store it without detach() (self.kept[:] = [output]), and detach only what serves as a target; or,",
        ),
        (
            "BS141 a residual gate and the layer before it, in blocks",
            "Start only one of them at zero: change line 21 to self.gate = nn.Parameter(0.02 * torch.randn(8)).",
        ),
        (
            "BS143 a threshold that is learned, with the gradient for its input forgotten",
            "Multiply by it: grad_output * kept.clone(). `backsight verify train.py` tests the result.",
        ),
        (
            "BS121 a likelihood of a sample that has no gradient",
            "Draw with rsample(): return self.q().rsample((8,)); or, if you only want to log it, leave it out of the "
            "loss.",
        ),
    ],
)
def test_the_fix_says_what_to_write_where(bench, name, fix):
    assert f"fix: {fix}" in " ".join(said_of(bench, name).split())


def test_fast_weights_that_are_made_into_parameters_are_named_by_their_dict(bench):
    err = said(
        bench,
        """
from torch.func import functional_call

model = net()
meta = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    fast = dict(model.named_parameters())
    loss = F.mse_loss(functional_call(model, fast, (x,)), y)
    grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {name: nn.Parameter(w - 0.1 * g) for (name, w), g in zip(fast.items(), grads)}
    meta.zero_grad()
    F.mse_loss(functional_call(model, fast, (x,)), y).backward()
    meta.step()
""",
    )
    assert re.findall(r"^warning (BS\d+)", err, re.MULTILINE) == ["BS115"], err
    assert "Keep the results attached to their graph: fast = {name: w - 0.1 * g for" in " ".join(err.split())


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("BS113 a scaler that backs off too slowly", "Create scaler with its defaults"),
        ("BS113 a scaler that no scale helps", "Smaller scales did not help"),
    ],
)
def test_the_fix_of_a_scaler_depends_on_how_small_its_scale_became(bench, name, fix):
    assert f"fix: {fix}" in said_of(bench, name)

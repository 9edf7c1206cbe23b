"""`backsight run` on trainings that go wrong and raise nothing, and on their neighbours that are in order."""

import re

import pytest
import silent_faults
import silent_healthy
from columns import needs_columns
from silent_faults import HEAD
from silent_pieces import written

FAULTS, HEALTHY = written(silent_faults.FAULTS), written(silent_healthy.HEALTHY)


def said(bench, source):
    bench.write("train.py", HEAD + source.lstrip("\n"))
    ended = bench.observed("train.py")
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
        "BS132 the probability of a route, step by step",
        "BS173 a critic whose target has its graph",
        "BS173 a Q-network without a target network, whose target is not detached",
        "BS173 returns that begin with the value of the last state",
    }
)
"""The faults that are told by an expression in their line."""


FIXES = [
    (
        "BS102 parts that get gradients of their own, which nobody hands on",
        "Hand on rows.grad of all turns before the step, with hidden.backward(gradient=...), or keep the graph",
    ),
    (
        "BS116 a validation within the epoch, begun by a method that sets the mode",
        "Call trainer.body.train() at the end of score().",
    ),
    ("BS122 a softmax given to ctc_loss", "On line 21, write log_softmax(-1) in place of softmax(-1)."),
    (
        "BS122 the outputs of a layer given to ctc_loss",
        "Pass ctc_loss the log_softmax over the classes: log_softmax(-1) of the output of a layer.",
    ),
    (
        "BS124 clipped before the backward",
        "Move line 23, `torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)`, between line 24, "
        "`loss.backward()`, and line 25, `opt.step()`.",
    ),
    (
        "BS101 a convolution that forward creates for the width it meets",
        "Create it once, in __init__: self.mix = nn.Conv1d(1, width, 3, padding=1); forward only uses it. __init__ has "
        "to be given width, as an argument: it is known in forward() alone.",
    ),
    (
        "BS101 adapters that are put in after the optimizer",
        "Create optimizer after this: move line 44 below line 45.",
    ),
    (
        "BS101 adapters on a frozen base, after an optimizer of the base",
        "Create optimizer after line 33, from the parameters that require grad: [p for p in model.parameters() if",
    ),
    (
        "BS101 a new head on a model that a helper has frozen, after its optimizer",
        "Create optimizer after line 25, from the parameters that require grad: [p for p in model.parameters() if",
    ),
    (
        "BS101 an adapter in front of a frozen model, whose optimizer was there before",
        "Create optimizer after line 20, from the parameters that require grad: [p for p in adapter.parameters() if",
    ),
    (
        "BS101 an adapter in front of a model that trains, whose optimizer was there before",
        "Create optimizer after line 19, with adapter.parameters() as well: optimizer = torch.optim.AdamW([*model.para",
    ),
    ("BS115 an encoder that the running function freezes", "To train them, write `pass` on line 22. Or unfreeze them"),
    (
        "BS115 an encoder that a helper freezes, called by the running function",
        "To train them, remove line 24. Or unfreeze them after it, before the forward pass: requires_grad_(True).",
    ),
    (
        "BS101 a body that is unfrozen after an optimizer of what was trainable",
        "Unfreeze before you create opt, or add what you unfreeze later, after line 36: opt.add_param_group("
        "{'params': model[0].parameters()}). Or create opt from model.parameters(): it skips what has no gradient.",
    ),
    (
        "BS101 an encoder that is unfrozen below its optimizer, in one function",
        "Unfreeze before you create optimizer, or add what you unfreeze later, after line 32: "
        "optimizer.add_param_group({'params': model.encoder.parameters()}).",
    ),
    (
        "BS115 a model that is built again on resume",
        "Keep the self.net that self.opt was created for: remove line 24. Line 25 loads the state into it.",
    ),
    (
        "BS115 a model that is grown after its optimizer and schedule",
        "After line 24, create self.opt again: self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01). Create "
        "self.sched again as well: it goes on with the old self.opt.",
    ),
    (
        "BS102 fast weights that begin with the state of the model, and learned rates",
        "Take dict(self.net.named_parameters()) in place of self.net.state_dict(), if they should learn from this "
        "loss.",
    ),
    (
        "BS115 fast weights of first order that are detached in each inner step",
        "On line 25, write `fast = {n: (p - 0.1 * g).requires_grad_() for (n, p), g in zip(fast.items(), grads)}`, "
        "without .detach(), so the copies stay attached to the originals.",
    ),
    (
        "BS115 a model of which the loss only has a slope without a graph",
        "On line 21, write `(slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)`.",
    ),
    (
        "BS115 a fake that is detached once, for both losses",
        "On line 22, write `fake = G(torch.randn(16, 2))`, without .detach(). Detach fake only for the other loss, "
        "whose backward runs at train.py:25 and would free its graph: pass fake.detach() there.",
    ),
    (
        "BS102 a mean over neighbours by NumPy, in each layer",
        "Stay in PyTorch, because NumPy records no graph: on line 25, write `values = messages[self.neighbours]`; on "
        "line 26, write",
    ),
    (
        "BS102 parameters whose values a matrix copies, in a method",
        "On line 24, write `return torch.stack([torch.stack([torch.tensor(0.0), torch.tensor(1.0)]), torch.stack(["
        "-self.rate, -self.damping])])`",
    ),
    (
        "BS102 an encoder whose result is wrapped anew",
        "On line 24, write `return h`, without .tolist(), if they should",
    ),
    (
        "BS102 a scale that is rebuilt of a parameter",
        "On line 23, write `weights = torch.cat([self.scale, torch.tensor([1.0])])`",
    ),
    (
        "BS102 a hook that returns what it keeps",
        "Let the hook return nothing: remove line 21, `return kept[module]`.",
    ),
    (
        "BS152 no mask, and keys of a cache",
        "Mask what comes later: pass attn_mask=torch.ones(L, S, dtype=torch.bool).tril(S - L), with L = q.size(-2) "
        "and S = k.size(-2), because is_causal aligns at the first key, and k has others in front.",
    ),
    (
        "BS163 two views whose cosine is all that is asked for",
        "Stop the gradient on one side: z.detach() on line 21, with a predictor on the other side, as in SimSiam.",
    ),
    (
        "BS163 two normalized views that are asked to be alike",
        "Stop the gradient on one side: F.normalize(z.detach(), dim=1) on line 23, with a predictor on the other",
    ),
    (
        "BS102 weights of tasks that are learned, as numbers and detached",
        "On line 28, write `loss = weights[0] * both[0] + weights[1] * both[1] + model.log_var.sum()`, without .item() "
        "and .detach(), if they should learn from this loss.",
    ),
    (
        "BS121 a teacher that is compared with itself, while the student's output is unused",
        "Use output in place of large: log_probs = F.log_softmax(output / 2, dim=-1).",
    ),
    (
        "BS121 an anchor that is compared with itself, while the projection is unused",
        "Use projected in place of anchor: match = F.mse_loss(projected, anchor).",
    ),
    (
        "BS143 a leaky activation whose backward looks at the sign of the gradient",
        "Compare x: grad[x <= 0] *= ctx.slope. `backsight verify train.py` tests the result.",
    ),
    (
        "BS143 a cut-off whose backward keeps what has a positive gradient",
        "Compare values: return grad * (values > 0.5).float().",
    ),
    (
        "BS161 sequences that are sorted by their length, and labels that are not",
        "Put the results back in their order: return self.out(made.sum(1) / lengths[:, None])[order.argsort()]. Or "
        "put the targets in the same order: targets[order].",
    ),
    (
        "BS161 rows that are shuffled in each epoch, without their targets",
        "Put the targets in the same order, targets[order].",
    ),
    (
        "BS162 log determinants that are summed over the samples as well",
        "Keep the samples apart: scale.sum(1) in place of scale.sum().",
    ),
    (
        "BS162 a divergence over the batch, added to the reconstruction of each sample",
        "Keep the samples apart: (-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())).sum(1) in place of (-0.5",
    ),
    (
        "BS122 a chain of tags whose likelihood is minimized",
        "Minimize its negative: return -(right - torch.logsumexp(every, dim=1)).mean().",
    ),
    (
        "BS122 a log-softmax whose sign was forgotten",
        "Minimize its negative: loss = -log_probs.gather(1, y[:, None]).mean().",
    ),
    (
        "BS138 weights in a dict that are trained, and a model that is validated",
        "Copy them back before you evaluate, and after the training: model.load_state_dict(params).",
    ),
    (
        "BS138 a dict of weights that are updated by hand, and a model that is evaluated",
        "Copy them back before you evaluate, and after the training: self.model.load_state_dict(self.weights).",
    ),
    ("BS103 a closure that zeroes nothing", "Call solver.zero_grad() in closure() before backward()."),
    (
        "BS103 a residual that is fitted without zeroing, in a class",
        "Call self.solver.zero_grad() in evaluate() before backward().",
    ),
    (
        "BS102 experts that are chosen by the greatest of their probabilities",
        "Use probs itself, or mix + probs - probs.detach() to keep the choice and pass on its gradient, if",
    ),
    (
        "BS121 an accuracy for a term",
        "An accuracy has no gradient: leave the term out of the loss, or log it.",
    ),
    (
        "BS121 features that a hook keeps without their graph",
        "Store it without detach() (self.kept[:] = [output]), and detach only what serves as a target; or,",
    ),
    (
        "BS141 a layer whose input is a memory that nothing fills",
        "Look at what goes in there: a buffer that is never filled, a mask that keeps nothing, or units that are dead.",
    ),
    ("BS141 a convolution of a channel that is empty", "Look at what goes in there: a buffer that is never filled,"),
    (
        "BS141 a residual gate and the layer before it, in blocks",
        "Start only one of them at zero: change line 21 to self.gate = nn.Parameter(0.02 * torch.randn(8)).",
    ),
    (
        "BS143 a threshold that is learned, with the gradient for its input forgotten",
        "Multiply by it: grad_output * kept.clone(). `backsight verify train.py` tests the result.",
    ),
    (
        "BS121 a residual with an unknown constant, both of whose sides are cut off",
        "On line 21, write `return torch.autograd.grad(u.sum(), t, create_graph=True)[0]`. On line 27, write `return "
        "(derivative(du, t) + stiffness * u).square().mean()`, without .detach(). (retain_graph=True only keeps",
    ),
    (
        "BS121 a rate that is fitted to a slope, both without a graph",
        "On line 22, write `(slope,) = torch.autograd.grad(u.sum(), t, retain_graph=True, create_graph=True)`. On line "
        "23, write `equation = F.mse_loss(rate * u, slope)`, without .data. (retain_graph=True only keeps the graph of",
    ),
    (
        "BS121 a likelihood of a sample that has no gradient",
        "Draw with rsample(): return self.q().rsample((8,)); or, if you only want to log it, leave it out of the loss.",
    ),
]


def code_of(name):
    return name.split()[0]


def told_first(faults):
    """Faults, first those of which another test reads what is said as well: `make test` tries one of each code, and
    its page has another, of which tests/test_docs.py reads every word."""
    fixed = {name for name, _ in FIXES}
    return sorted((each for each in faults if each not in NEED_COLUMNS), key=lambda each: each not in fixed)


@pytest.mark.one_in(12, kind=code_of)
@pytest.mark.parametrize(
    "name",
    [
        *told_first(FAULTS),
        *(pytest.param(each, marks=needs_columns) for each in sorted(NEED_COLUMNS)),
    ],
)
def test_a_silent_fault_is_told_once_with_its_line(bench, name):
    err = said_of(bench, name)
    line = next(number for number, text in enumerate(f"{HEAD}{FAULTS[name].lstrip()}".splitlines(), 1) if "#!" in text)
    assert re.findall(r"^warning (BS\d+)", err, re.MULTILINE) == re.findall(r"BS\d+", name), err
    assert f"train.py:{line}" in err


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_training_that_is_in_order(bench, name):
    assert "nothing found" in said(bench, HEALTHY[name])


@pytest.mark.parametrize("name", silent_healthy.WITHOUT_OPTIMIZER)
def test_nothing_is_said_of_a_training_without_an_optimizer_that_is_in_order(bench, name):
    err = said(bench, silent_healthy.WITHOUT_OPTIMIZER[name])
    assert "0 optimizer steps" in err and "BS" not in err


@needs_columns
def test_a_straight_through_estimator_is_not_to_be_taken_apart(bench):
    err = said_of(bench, "BS102 a codebook that only its estimator uses")
    assert "fix: Use q itself in a loss term, not z + (q - z).detach(), which passes the gradient to z alone, if" in (
        " ".join(err.split())
    )
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


@pytest.mark.parametrize(("name", "fix"), FIXES)
def test_the_fix_says_what_to_write_where(bench, name, fix):
    assert f"fix: {fix}" in " ".join(said_of(bench, name).split())


SAID = {
    "a line that computes the input of a loss as well, once": (
        """
model, targets = net(4, 3), torch.rand(16, 3).softmax(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    loss = F.kl_div(F.softmax(model(x), 1), targets, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        r"train\.py:\d+ loss = F\.kl_div\([^\n]* computes its input, and takes no logarithm of its first argument",
    ),
    "an optimizer by the name that the program gave it": (
        """
generator, critic = net(), nn.Linear(1, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.01)
d_opt = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    fake = generator(x).detach()
    d_loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(y)).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = F.softplus(-critic(fake)).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
""",
        r"No path leads from the loss to generator[\w., \[\]]* and [\w.\[\]]*\.\s.* passes them to g_opt\.",
    ),
    "shapes by what both operands are called": (
        """
model, targets = net(), torch.randn(64)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    pred, rows = model(x), torch.randint(0, 64, (16,))
    loss = ((pred - targets[rows]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        r"Give both the same shape: pred\.squeeze\(1\), or targets\[rows\]\.unsqueeze\(1\)\.",
    ),
    "every line that joins two shapes": (
        """
trunk, v = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*trunk.parameters(), *v.parameters()], lr=0.01)
for step in range(40):
    x, y = torch.randn(16, 4), torch.rand(16)
    value = v(trunk(x))
    adv = (y - value).detach()
    loss = ((value - y) ** 2).mean() + 0 * adv.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        r"value\.squeeze\(1\), or y\.unsqueeze\(1\)\. Line \d+ needs the same\. Or mend them all on line \d+: "
        r"`value = v\(trunk\(x\)\)\.squeeze\(1\)`\.",
    ),
    "tensors where later code needs them": (
        """
model, losses = net(), []
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
print(sum(losses[-10:]).item())
""",
        r"fix: losses\.append\(loss\.detach\(\)\), which keeps the values and drops the graph\.",
    ),
}


@needs_columns
@pytest.mark.parametrize("name", SAID)
def test_what_is_said_is_in_the_words_of_the_program(bench, name):
    program, expected = SAID[name]
    assert re.search(expected, " ".join(said(bench, program).split()))


@needs_columns
def test_a_weight_is_named_before_its_bias(bench):
    found = said_of(bench, "BS149 a latent that is sampled without a gradient")
    assert "A sample passes no gradient to model.mean.weight and model.mean.bias." in found


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
        (
            "BS113 a scaler that no scale helps, for a root at 0 that a mask hides",
            "torch.linalg.vector_norm, whose gradient at 0 is 0;",
        ),
    ],
)
def test_the_fix_of_a_scaler_depends_on_how_small_its_scale_became(bench, name, fix):
    assert f"fix: {fix}" in said_of(bench, name)


@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("BS115 an inner update through .data, on a copy that is gone by the backward", "p.data -= 0.03 * g"),
        (
            "BS115 tasks in a function, each with a copy whose parameters are set through .data",
            "p.data.add_(g, alpha=-rate)",
        ),
    ],
)
def test_an_update_through_data_is_told_beside_the_copy(bench, name, update):
    source = f"{HEAD}{FAULTS[name].lstrip()}".splitlines()
    line = next(number for number, text in enumerate(source, 1) if update in text)
    assert f"train.py:{line}  {update}" in said_of(bench, name)


@pytest.mark.parametrize(
    "fill", ["p.data.copy_(weights[name])", "p.data[:] = weights[name]", "p.data = weights[name].detach()"]
)
def test_a_model_that_is_overwritten_in_each_step_is_not_what_to_train(bench, fill):
    source = FAULTS["BS115 a hypernetwork whose weights are put into a model by .data"]
    err = " ".join(said(bench, source.replace("p.data = weights[name]", fill)).split())
    assert f"{fill} copies the values without their graph" in err, err
    assert "fix: Compute with the result itself in place of the parameters of main: torch.func.functional_call(" in err
    assert "main.parameters()" not in err

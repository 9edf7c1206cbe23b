"""What a step tells: PyTorch's formula, words, the local Jacobian, and whether the node returns Jᵀ g."""

import dataclasses

import pytest
import torch
import walked

import backsight as bs
from backsight.walkthrough.check import checked
from backsight.walkthrough.formulas import formula
from backsight.walkthrough.rebuilt import rebuilt
from backsight.walkthrough.sentences import _SENTENCES, sentence

x = torch.linspace(0.2, 0.8, 6).reshape(2, 3).requires_grad_()


def last(y):
    """Return the step of the operation that made `y`."""
    return bs.walk(y, gradient=torch.linspace(-1, 1, max(y.numel(), 1)).reshape(y.shape), names=False).step()


def test_formulas_are_found_for_all_node_classes_but_three():
    classes = [name for name in dir(torch._C._functions) if "Backward" in name]
    missing = {name for name in classes if formula(name) is None}
    assert len(classes) > 500
    assert missing <= {"CopyBackwards", "SendRpcBackward", "UndefinedGradBackward"}


@pytest.mark.parametrize(
    ("node", "argument", "text"),
    [
        ("SinBackward0", "self", "grad * self.cos().conj()"),
        ("MeanBackward0", "self", "grad.expand_symint(self.sym_sizes()) / self.sym_numel()"),
        ("TBackward0_copy", "self", "grad.t()"),
        ("IgammaBackward0", "self", 'not_implemented("igamma: input")'),
    ],
)
def test_formulas_are_pytorchs_own(node, argument, text):
    assert formula(node).of[argument] == text


def test_the_arguments_of_a_formula_stand_in_the_order_of_the_edges():
    assert formula("NativeLayerNormBackward0").arguments == ("input", "weight", "bias")
    assert last(torch.cat([x, x * 1])).arguments == ("tensors[0]", "tensors[1]")
    assert last(torch.where(x > 0, x, x * 1)).arguments == ("self", "other")


def test_every_operation_with_a_sentence_exists():
    known = {name.rpartition("Backward")[0] for name in dir(torch._C._functions)}
    handwritten = {"CopySlices", "ScaledDotProductAttention", "Linear", "Chunk", "Narrow"}
    assert set(_SENTENCES) - known - handwritten == set()


def test_words():
    assert sentence("ReluBackward0") == "Where the input was positive g passes; elsewhere it is zero."
    assert sentence("PermuteBackward0").startswith("Only the layout changes")
    assert sentence("ScaledDotProductFlashAttentionForCpuBackward0").startswith("value gets attentionᵀ @ g")
    assert sentence("LgammaBackward0") == ""


def test_a_custom_function_is_shown_with_its_class():
    step = bs.walk(walked.custom_function()).until("Scaled")
    assert step.node.kind == "custom"
    assert "custom Function Scaled" in step.words and "walked.py" in step.words
    assert step.formula is None
    assert step.arguments == ("x", "input 1", "y")
    assert str(step.check) == "not checked: a custom region does not say what its forward was"
    assert [j.structure for j in step.jacobian] == ["sparse", "sparse"]


@pytest.mark.parametrize(
    ("make", "structure"),
    [
        (lambda: x * 1.0 + x.detach(), "identity"),
        (lambda: x * 2, "scaled identity"),
        (lambda: x.sin(), "diagonal"),
        (lambda: x.t(), "permutation"),
        (lambda: x[0].expand(4, -1), "one 1 per row"),
        (lambda: x.sum(0), "sparse"),
        (lambda: x.softmax(-1) @ torch.ones(3, 3), "sparse"),
        (lambda: x.logsumexp((0, 1)), "dense"),
        (lambda: x.floor(), "zero"),
    ],
)
def test_the_structure_of_a_jacobian_is_named(make, structure):
    assert last(make()).jacobian[0].structure == structure


@pytest.mark.parametrize(
    "f",
    [
        torch.sin,
        lambda x: x.softmax(-1),
        lambda x: x.t(),
        lambda x: x @ torch.randn(3, 4),
        lambda x: x.cumsum(0),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
    ],
)
def test_a_small_jacobian_is_that_of_the_whole_function(f):
    torch.manual_seed(0)
    (jacobian,) = last(f(x)).jacobian
    torch.manual_seed(0)
    expected = torch.autograd.functional.jacobian(f, x.detach()).reshape(jacobian.rows, jacobian.columns)
    torch.testing.assert_close(jacobian.matrix, expected)
    assert jacobian.exact


def test_the_gradient_that_leaves_is_the_gradient_that_came_times_the_jacobian():
    for step in bs.walk(walked.mean_squared_error()):
        if step.node.leaf is None:
            g = step.grad_in[0].value.reshape(-1)
            for jacobian in step.jacobian:
                torch.testing.assert_close(g @ jacobian.matrix, step.grad_out[jacobian.input].value.reshape(-1))


def test_of_a_large_jacobian_some_rows_are_looked_at():
    big = torch.randn(100, 100, requires_grad=True)
    (jacobian,) = last(big.exp()).jacobian
    assert jacobian.matrix is None and not jacobian.exact
    assert str(jacobian) == "10,000×10,000 diagonal (8 of 10,000 rows checked)"


@pytest.mark.parametrize("program", [p for p in walked.PROGRAMS if "custom" not in p])
def test_every_check_that_can_be_made_on_real_programs_succeeds(program):
    torch.manual_seed(1)
    checks = [step.check for step in bs.walk(walked.PROGRAMS[program]()).run().steps if step.node.leaf is None]
    assert [str(check) for check in checks if check.ok is False] == []
    assert all(check.why for check in checks if check.ok is None)
    assert program in ("sparse_embedding", "complex_inside", "half_precision") or sum(c.ok is True for c in checks) > 1


@pytest.mark.parametrize("size", [3, 300])
def test_a_wrong_backward_is_found(size):
    step = last(torch.linspace(0.1, 0.9, size).requires_grad_().sin())
    operation = rebuilt(step._engine.live.nodes[0], step.formula)
    gradients = [step.grad_in[0].value]
    right = step.grad_out[0].value
    assert checked(operation, gradients, [right]).ok
    for wrong in (right * 1.01, -right, right + torch.eye(size)[0] * 0.1):
        assert checked(operation, gradients, [wrong]).ok is False


def test_a_check_that_cannot_be_made_says_why():
    dropped = torch.nn.functional.dropout(x, 0.5)
    assert bs.walk(dropped.sum()).run().steps[1].check.ok is not False
    assert str(last(x.max(0).values).check) == "not checked: it keeps 'indices', which does not determine 'self'"
    z = torch.complex(x, x)
    with pytest.raises(bs.WalkError, match="has complex gradients"):
        bs.walk(z.abs().sum()).until("Abs").jacobian
    leaf = bs.walk(x.sum()).run().steps[-1]
    assert leaf.check.why == "a leaf computes nothing"
    with pytest.raises(bs.WalkError, match="is a leaf: nothing is computed there"):
        leaf.jacobian


def test_a_jacobian_asked_for_after_the_graph_was_freed_raises():
    loss = x.sin().sum()
    w = bs.walk(loss).run()
    loss.backward()
    x.grad = None
    with pytest.raises(RuntimeError, match="have already been freed"):
        w.steps[1].jacobian
    assert w.steps[1].check.ok is None


def test_a_step_prints_its_card():
    text = str(bs.walk(walked.mean_squared_error()).until("Add"))
    assert text.splitlines()[:2] == [
        "step 3 · AddBackward0 #3",
        "  in        2×4  [-0.5366, 0.6239, -0.3015, -0.4827, …]  norm 1.51",
    ]
    assert "  Jacobian  other: 8×4 one 1 per row" in text
    assert "  engine    other was broadcast: its gradient is summed from 2×4 to 4" in text
    assert "  check     checked against forward-mode AD: agrees " in text


def test_what_a_walk_tells_is_frozen():
    step = bs.walk(x.sum()).step()
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.number = 3

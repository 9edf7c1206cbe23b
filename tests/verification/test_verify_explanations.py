"""Each way in which a gradient is wrong, and how `verify` puts it."""

from __future__ import annotations

from typing import Any

import misbehaving
import pytest
import torch
import wrong

import backsight as bs
from backsight.verification.hypotheses import HYPOTHESES


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


x, y = normal(5, 5), normal(5, 5) + 1
c = torch.complex(normal(4), normal(4) + 1)

EXPLAINED: list[tuple[str, tuple[Any, ...], str, str, str]] = [
    (
        "BS403",
        (wrong.Difference, x, y),
        "Difference.backward returns the gradient of `b` with the wrong sign.",
        "An optimizer would climb instead of descend.",
        "Negate it: `-grad_output`.",
    ),
    (
        "BS404",
        (wrong.Square, x),
        "Square.backward returns half the right gradient for `x`.",
        "That is one over the exponent of the power in `return x**2`, which is 2.",
        "Multiply the gradient of `x` by 2.",
    ),
    (
        "BS405",
        (wrong.Product, x, y),
        "Product.backward lacks a transpose in the gradient of `a`.",
        "What it returns for `a` is grad_output @ b, and must be grad_output @ b.T.",
        "Return `grad_output @ b.T`.",
    ),
    (
        "BS405",
        (wrong.Transposed, x),
        "Transposed.backward lacks a transpose in the gradient of `x`.",
        "What it returns for `x` is the transpose of the right gradient.",
        "Transpose it.",
    ),
    (
        "BS405",
        (wrong.Unconjugated, c, c * 2j),
        "Unconjugated.backward lacks a conjugate in the gradient of `x`.",
        "It is right with the conjugate of `w` instead of `w`.",
        "Multiply by w.conj().",
    ),
    (
        "BS406",
        (wrong.FirstRowBias, normal(3, 4), normal(4)),
        "FirstRowBias.backward lacks the sum over broadcast dimension 0 in the gradient of `bias`.",
        "`bias` (4) is broadcast to the output (3×4): each entry is used 3 times. Backward passes on the gradient "
        "of only the first of 3 copies.",
        "Sum over dimension 0: `.sum(0)`.",
    ),
    (
        "BS406",
        (wrong.MeanBias, normal(3, 4), normal(4)),
        "MeanBias.backward lacks the sum over broadcast dimension 0 in the gradient of `bias`.",
        "`bias` (4) is broadcast to the output (3×4): each entry is used 3 times. Backward returns the mean over "
        "them but must return the sum.",
        "Sum over dimension 0: `.sum(0)`.",
    ),
    (
        "BS406",
        (wrong.OtherDimensionBias, x, normal(5)),
        "OtherDimensionBias.backward lacks the sum over broadcast dimension 0 in the gradient of `bias`.",
        "`bias` (5) is broadcast to the output (5×5): each entry is used 5 times. Backward sums over dimension 1 "
        "instead.",
        "Sum over dimension 0: `.sum(0)`.",
    ),
    (
        "BS406",
        (misbehaving.Unsummed, normal(5, 3), normal(5)),
        "Unsummed.backward lacks a sum in the gradient of `scale`.",
        "It has shape 5×3, but `scale` has shape 5.",
        "Sum it over the dimensions along which `scale` is repeated in forward.",
    ),
    (
        "BS407",
        (wrong.Swapped, x, y),
        "Swapped.backward returns the gradients of `a` and `b` in the wrong order.",
        "The gradient returned for `a` is the right one for `b`, and vice versa.",
        "Return them in the order of forward's arguments: a, b.",
    ),
    (
        "BS408",
        (wrong.WrongMask, torch.tensor([-2.0, -0.5, 0.5, 2.0, 3.0])),
        "WrongMask.backward returns the gradient of `x` with zeros in the wrong places.",
        "It stops the gradient at 1 of 5 entries, where forward does change with `x` (it is -2 there).",
        "Compute the mask in backward with the same comparison as in forward: same tensor, bound and direction.",
    ),
    (
        "BS408",
        (wrong.OneBound, torch.tensor([-2.0, -0.5, 0.5, 2.0, 3.0])),
        "OneBound.backward returns the gradient of `x` as if clamp in `return x.clamp(-1, 1)` had no upper bound.",
        "With the other bound alone in its derivative, the returned gradient is reproduced.",
        "Make the mask in backward from both bounds.",
    ),
    (
        "BS409",
        (wrong.Nothing, x, y),
        "Nothing.backward returns None for `weight`, which needs a gradient.",
        "forward depends on `weight`: the right gradient reaches 1.191. As it is, `weight` silently never learns.",
        "Return grad_output times the derivative of forward with respect to `weight`; None is only for arguments that "
        "ctx.needs_input_grad does not ask for.",
    ),
    (
        "BS409",
        (wrong.Zeros, torch.ones(3)),
        "Zeros.backward returns zeros for `x`, which needs a gradient.",
        "forward depends on `x`: the right gradient reaches 1.893. As it is, `x` silently never learns.",
        "Return grad_output times the derivative of forward with respect to `x`; None is only for arguments that "
        "ctx.needs_input_grad does not ask for.",
    ),
    (
        "BS409",
        (wrong.Total, x, [x, y]),
        "Total.apply gets `more` in a container, where autograd does not see it.",
        "forward depends on it, but no gradient will ever arrive: Function.apply looks for tensors only among its "
        "direct arguments.",
        "Pass each tensor as a separate argument, as in apply(*tensors), and return a gradient for each.",
    ),
    (
        "BS410",
        (misbehaving.Mutating, x),
        "Mutating.backward modifies grad_output in place.",
        "grad_output has different values after the call. If the output is used twice, or a hook keeps it, another "
        "part of the graph gets the modified values.",
        "Compute with new tensors: `grad_output * x` instead of `grad_output.mul_(x)`; clone it before assigning to "
        "a part of it.",
    ),
    (
        "BS411",
        (misbehaving.Noisy, torch.zeros(3)),
        "Noisy.backward is not deterministic.",
        "Random numbers that belong to the derivative must be drawn in forward and saved: drawing again in backward "
        "gives different ones.",
        "Draw them in forward and save them with ctx.save_for_backward.",
    ),
    (
        "BS412",
        (misbehaving.ChangingSaved, x),
        "ChangingSaved.backward modifies a tensor that forward saved.",
        "retain_graph=True, or a second loss over the same forward, would compute with the modified values.",
        "Compute with new tensors: no in-place operation on tensors from ctx.",
    ),
    (
        "BS412",
        (misbehaving.Dirty, x),
        "Dirty.forward modifies its argument `x` in place without telling autograd.",
        "Any operation that saved this tensor before, including this Function, uses the modified values in "
        "backward, so gradients are wrong.",
        "Call ctx.mark_dirty(x) and return it, or compute with a copy.",
    ),
    (
        "BS413",
        (misbehaving.Single, x),
        "Single.backward computes the gradient of `x` in float32, forward in float64.",
        "For a float64 grad_output, every entry of the gradient is a float32 number.",
        "Take dtypes from the tensors, as in torch.zeros_like(x) or .to(grad_output.dtype), instead of naming one.",
    ),
    (
        "BS414",
        (misbehaving.Raising, x, y),
        "Raising.backward returns 1 gradients for 2 arguments.",
        "RuntimeError: function RaisingBackward returned an incorrect number of gradients (expected 2, got 1)",
        "Return one for each argument of forward; None for those that need no gradient.",
    ),
    (
        "BS415",
        (wrong.Softmax, x),
        "Softmax.backward returns the gradient of `x` as if each output entry depended only on the input entry at the "
        "same place.",
        "Each entry that it returns is grad_output times the derivative of the output entry at the same place: the "
        "diagonal of the Jacobian.",
        "Sum over all output entries. For y = softmax(x), that is y * (grad_output - (grad_output * y).sum(-1, "
        "keepdim=True)).",
    ),
    (
        "BS416",
        (wrong.Sigmoid, x),
        "Sigmoid.backward is missing the factor (1 - output) in the gradient of `x`.",
        "Every entry that it returns for `x` would be right if it were multiplied by (1 - output).",
        "On line 237, write `return (1 - y) * grad_output * y`: the chain rule.",
    ),
    (
        "BS416",
        (wrong.Layer, normal(6, 4), normal(3, 4)),
        "Layer.backward leaves out the derivative of the last step, tanh, for `x`.",
        "With grad_output * (1 - output**2) instead of grad_output every entry is right: that is the derivative "
        "of tanh, in terms of its output.",
        "Start backward with `grad_output = grad_output * (1 - output**2)`, output being what forward returned.",
    ),
    (
        "BS404",
        (wrong.Entropy, normal(6, 4), torch.tensor([0, 1, 2, 3, 1, 1])),
        "Entropy.backward returns 6 times the right gradient for `x`.",
        "It is multiplied by 6, the number of entries along dimension 0 of the input: a sum where the mean belongs?",
        "Divide the gradient of `x` by `x.shape[0]`.",
    ),
    (
        "BS418",
        (misbehaving.Saturated, normal(5, 5)),
        "Saturated.backward is not linear in grad_output.",
        "",
        "Return grad_output times the derivative of forward, which does not depend on it. To clip or normalize "
        "gradients, use a hook, so the Function itself stays right.",
    ),
    (
        "BS417",
        (wrong.Rounding, x),
        "Rounding.backward returns grad_output itself for `x`, on which forward does not depend.",
        "Around these values the output does not change with `x` (a rounding, a comparison, a detached value): the "
        "derivative is 0.",
        'If this is intended, declare it: put `@backsight.surrogate("straight-through")` on the Function. '
        "Otherwise return zeros.",
    ),
    (
        "BS406",
        (wrong.AcrossRows, normal(5, 5)),
        "AcrossRows.backward takes a sum over the wrong dimension for the gradient of `x`.",
        "With -1 in place of 0 in `(grad_output * y).sum(0, keepdim=True)`, every entry is right.",
        "On line 333, write `along = (grad_output * y).sum(-1, keepdim=True)`.",
    ),
    (
        "BS406",
        (wrong.AcrossColumns, normal(4, 5)),
        "AcrossColumns.backward takes a mean over the wrong dimension for the gradient of `x`.",
        "With 0 in place of 1 in `torch.mean(grad_output * y, dim=1, keepdim=True)`, every entry is right.",
        "On line 347, write `along = torch.mean(grad_output * y, dim=0, keepdim=True)`.",
    ),
    (
        "BS419",
        (wrong.Norm, torch.tensor([[0.0, 0.0], [1.0, 2.0]])),
        "Norm.backward returns NaN for `x`, where forward is finite.",
        "2 of 4 entries are NaN; the first is where `x` is 0, and 0 is right there.",
        "Handle these values separately before dividing: 0 / 0 stays NaN under a later torch.where, so replace the "
        "divisor, "
        "as in x / norm.clamp_min(1e-12).",
    ),
]


@pytest.mark.parametrize(
    ("code", "call", "title", "evidence", "fix"),
    EXPLAINED,
    ids=[f"{row[0]}-{row[1][0].__name__}" for row in EXPLAINED],
)
def test_an_explanation(code: str, call: tuple[Any, ...], title: str, evidence: str, fix: str) -> None:
    (finding,) = bs.verify(*call).findings
    assert (finding.code, finding.title) == (code, title)
    assert not evidence or evidence in finding.evidence
    assert finding.fix == fix


def test_what_no_hypothesis_explains_is_shown_entry_by_entry() -> None:
    (finding,) = bs.verify(wrong.Odd, torch.tensor([0.0, 2.0])).findings
    assert (finding.code, finding.title) == ("BS400", "Odd.backward returns a wrong gradient for `x`.")
    assert finding.evidence[0] == "1 of 2 entries are wrong. The worst:"
    assert finding.evidence[1].startswith("  x[1] = 2: returned ")


def test_every_hypothesis_is_tested_here_or_with_the_tutorial() -> None:
    assert {code for code, *_ in HYPOTHESES} - {row[0] for row in EXPLAINED} == {"BS400", "BS401", "BS402"}


@pytest.mark.parametrize("seed", range(8))
def test_explanations_do_not_depend_on_the_draw(seed: int) -> None:
    for code, call, title, _, _ in EXPLAINED:
        assert [(each.code, each.title) for each in bs.verify(*call, seed=seed)] == [(code, title)]


def test_a_gradient_of_one_entry_is_not_a_constant_times_the_right_one_by_default() -> None:
    """With one draw of grad_output any number is a constant times any other."""

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return 3 * grad_output**2

    (finding,) = bs.verify(Squared, torch.tensor(2.0)).findings
    assert finding.title.endswith("has an extra factor grad_output in the gradient of `x`.")


def test_brackets_are_only_proposed_where_they_help() -> None:
    class Surplus(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return grad_output * 3 + 1

    (finding,) = bs.verify(Surplus, normal(4)).findings
    assert (finding.code, finding.fix) == ("BS402", "Remove the added term.")


def test_a_backward_that_runs_only_once_is_explained_all_the_same() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.kept = x.cos()
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            gradient = -grad_output * ctx.kept
            del ctx.kept
            return gradient

    (finding,) = bs.verify(Once, normal(4)).findings
    assert finding.code == "BS403" and finding.fix == "Negate it: `grad_output * ctx.kept`."


def test_a_gradient_that_is_wrong_and_changes_what_was_saved_is_told_both() -> None:
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.kept = x.clone()
            return x**2

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return ctx.kept.mul_(grad_output)

    assert sorted(each.code for each in bs.verify(Both, normal(4))) == ["BS404", "BS412"]

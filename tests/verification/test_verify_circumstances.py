"""What is right as it was called may be wrong in other circumstances: other batches, layouts, inputs, gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch.autograd import Function

import backsight as bs
from backsight.verification import variations


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


class OneSample(Function):
    """A fast path for a batch of one, that forgets a factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.square().sum(1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x if len(x) == 1 else 2 * grad[:, None] * x


class Flat(Function):
    """grad is read as if it were contiguous, as a kernel does that gets its address alone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.as_strided(grad.shape, (grad.shape[1], 1)).clone()


class FlatInput(Function):
    """The saved input is read so."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.as_strided(x.shape, (x.shape[1], 1)).cos()


class Viewed(Function):
    """A view that a gradient in another layout does not have."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.view(-1).view(grad.shape)


class Shortcut(Function):
    """Nothing at all where the first input needs no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return (grad @ weight.T, x.T @ grad) if ctx.needs_input_grad[0] else (None, None)


class Shared(Function):
    """A buffer is reused where both gradients are computed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x = grad * weight
        return of_x, (of_x if ctx.needs_input_grad[0] else grad) * x


class FirstOnly(Function):
    """Without a gradient of the first output the second one is forgotten."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx: Any, of_sine: torch.Tensor | None, of_cosine: torch.Tensor | None) -> torch.Tensor | None:
        (x,) = ctx.saved_tensors
        if of_sine is None:
            return None
        return of_sine * x.cos() - (0 if of_cosine is None else of_cosine * x.sin())


class Kept(Function):
    """The derivative of the first call."""

    derivative: torch.Tensor | None = None

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        if Kept.derivative is None:
            Kept.derivative = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        assert Kept.derivative is not None
        return grad * Kept.derivative


class Overwritten(Function):
    """Right as long as no index is repeated."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, index)
        return x[index]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, index = ctx.saved_tensors
        made = torch.zeros_like(x)
        made[index] = grad
        return made, None


class Cut(Function):
    """Right where exp does not overflow in float32; the bound is too low."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.nn.functional.softplus(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x < 5, grad * x.sigmoid(), 0)


WRONG: list[tuple[type[Function], tuple[torch.Tensor, ...], tuple[str, str, str]]] = [
    (
        OneSample,
        (normal(4, 3),),
        (
            "error",
            "BS404",
            "OneSample.backward returns half the right gradient for `x`, for a batch of one.",
        ),
    ),
    (
        Flat,
        (normal(4, 3),),
        ("error", "BS400", "Flat.backward returns a wrong gradient for `x`, where grad_output is not contiguous."),
    ),
    (
        FlatInput,
        (normal(4, 3),),
        ("error", "BS400", "FlatInput.backward returns a wrong gradient for `x`, where the inputs are not contiguous."),
    ),
    (
        Viewed,
        (normal(4, 3),),
        ("warning", "BS414", "Viewed.backward raises an error, where grad_output is not contiguous."),
    ),
    (
        Shortcut,
        (normal(4, 3), normal(3, 2)),
        (
            "error",
            "BS409",
            "Shortcut.backward returns None for `weight`, which needs a gradient, where `weight` alone needs a "
            "gradient.",
        ),
    ),
    (
        Shared,
        (normal(4, 3).detach(), normal(4, 3, seed=1)),
        (
            "error",
            "BS416",
            "Shared.backward has an extra factor `weight` in the gradient of `weight`, where the other inputs "
            "need a gradient too.",
        ),
    ),
    (
        FirstOnly,
        (normal(5),),
        (
            "error",
            "BS409",
            "FirstOnly.backward returns None for `x`, which needs a gradient, where output 1 alone has a gradient.",
        ),
    ),
    (
        Overwritten,
        (normal(5, 3), torch.tensor([3, 0, 1])),
        (
            "warning",
            "BS406",
            "Overwritten.backward returns the gradient of `x` without the sum over repeated indices of the indexing in "
            "`return x[index]`, where an index is repeated.",
        ),
    ),
    (
        Cut,
        (normal(5),),
        (
            "warning",
            "BS408",
            "Cut.backward returns the gradient of `x` with zeros in the wrong places, where the inputs are 30 times as "
            "large.",
        ),
    ),
]


@pytest.mark.parametrize(("function", "inputs", "expected"), WRONG, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_right_as_it_was_called_and_wrong_otherwise(
    function: type[Function], inputs: tuple[torch.Tensor, ...], expected: tuple[str, str, str]
) -> None:
    report = bs.verify(function, *inputs)
    assert [(each.severity, each.code, each.title) for each in report] == [expected]
    assert not report.ok
    assert report.findings[0].evidence[0] == (
        "As called, it is right. A test that calls it in only one way does not see this."
    )


def test_what_is_kept_from_the_first_call() -> None:
    Kept.derivative = None
    (finding,) = bs.verify(Kept, normal(5))
    assert finding.severity == "error"
    assert finding.title.endswith(", where the inputs are others than at the first call.")


def test_an_output_that_is_marked_and_changes_is_mentioned() -> None:
    class Statistics(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            ctx.save_for_backward(x)
            norm, count = x.norm(), torch.ones(1)
            ctx.mark_non_differentiable(norm, count)
            return x.exp(), norm, count

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> torch.Tensor:
            return grad * ctx.saved_tensors[0].exp()

    report = bs.verify(Statistics, normal(4))
    assert [(each.severity, each.title) for each in report] == [
        ("note", "Statistics marks an output as not differentiable that changes with `x`.")
    ]
    assert report.ok


class Permuted(Function):
    """An inverse permutation: no index is ever repeated."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (order,) = ctx.saved_tensors
        return grad[order.argsort()], None


class Loss(Function):
    """A loss with a target that has no gradient, a logarithm with a domain, a mean, a batch."""

    @staticmethod
    def forward(ctx: Any, p: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(p, target)
        return -(target * p.log() + (1 - target) * (1 - p).log()).mean()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        p, target = ctx.saved_tensors
        return grad * (p - target) / (p * (1 - p)) / p.numel(), None


class Several(Function):
    """Two inputs, two outputs, each of which may lack a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return x @ w, x.sum(1)

    @staticmethod
    def backward(ctx: Any, of_product: torch.Tensor | None, of_sum: torch.Tensor | None) -> Any:
        x, w = ctx.saved_tensors
        of_x = of_w = None
        if ctx.needs_input_grad[0]:
            of_x = torch.zeros_like(x)
            of_x = of_x if of_product is None else of_x + of_product @ w.T
            of_x = of_x if of_sum is None else of_x + of_sum[:, None]
        if ctx.needs_input_grad[1] and of_product is not None:
            of_w = x.T @ of_product
        return of_x, of_w


class Scores(Function):
    """A loss that saturates: far away both the loss and its gradient vanish, and only one of them to the last bit."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits, label)
        return torch.nn.functional.cross_entropy(logits, label)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        logits, label = ctx.saved_tensors
        return grad * (logits.softmax(1) - torch.nn.functional.one_hot(label, 3)) / len(label), None


class Affine(Function):
    """As many channels as samples: the scale must not be cut with the batch."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        assert len(scale) == x.shape[1]
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, scale = ctx.saved_tensors
        return grad * scale, (grad * x).sum(0)


@pytest.mark.parametrize(
    "call",
    [
        (Permuted, normal(5, 3), torch.tensor([3, 0, 4, 1, 2])),
        (Loss, torch.rand(6, dtype=torch.float64).clamp(0.1, 0.9), torch.tensor([0.0, 1, 1, 0, 1, 0]).double()),
        (Several, normal(4, 3), normal(3, 2)),
        (Scores, 40 * torch.eye(3).double(), torch.arange(3)),
        (Affine, normal(3, 3), normal(3)),
    ],
    ids=lambda call: call[0].__name__,
)
def test_right_ones_are_right_in_all_circumstances(call: tuple[Any, ...]) -> None:
    function, x, *rest = call
    report = bs.verify(function, x.detach().requires_grad_(), *rest)
    assert report.ok and not report.findings


def test_what_would_take_too_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variations, "SECONDS", -1.0)
    report = bs.verify(OneSample, normal(4, 3))
    assert report.ok
    assert [each.how for each in report.checked] == [
        "float64; under other conditions: not in all of them, which would take too long"
    ]


def guarded(bound: float) -> type[Function]:
    class Sine(Function):
        """The sine of an angle from its cosine; the bound only keeps rounding out of the root."""

        @staticmethod
        def forward(ctx: Any, c: torch.Tensor) -> torch.Tensor:
            sine = (1 - c * c).clamp(min=bound).sqrt()
            ctx.save_for_backward(c, sine)
            return sine

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            c, sine = ctx.saved_tensors
            return -grad * c / sine

    return Sine


class Capped(Function):
    """Never so large that the cap acts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.where(x.abs() > 20, 20 * x.sign(), x).sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Angle(Function):
    @staticmethod
    def forward(ctx: Any, c: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(c)
        return c.acos().nan_to_num()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (c,) = ctx.saved_tensors
        return (-grad / (1 - c * c).abs().sqrt()).nan_to_num()


COSINES = torch.tensor([-0.9, -0.4, 0.1, 0.6, 0.95], dtype=torch.float64)


@pytest.mark.parametrize(("function", "x"), [(guarded(1e-12), COSINES), (Capped, normal(5)), (Angle, COSINES)])
def test_a_bound_that_never_acts_as_called_proves_nothing_where_it_does(
    function: type[Function], x: torch.Tensor
) -> None:
    assert bs.verify(function, x).ok


def test_a_bound_that_acts_as_called_is_tested() -> None:
    (finding,) = bs.verify(guarded(0.5), COSINES).findings
    assert "clamp" in finding.title
    assert "where" not in finding.title.rpartition("`")[2]


class Largest(Function):
    """The mask of the last call, for all of them."""

    mask: torch.Tensor

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Largest.mask = torch.zeros_like(x).scatter_(-1, x.topk(2, dim=-1).indices, 1.0)
        return x * Largest.mask

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * Largest.mask


KEPT: dict[str, torch.Tensor] = {}


class InGlobal(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        KEPT["x"], ctx.weight = x, weight
        return x.sin() * weight

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.weight * KEPT["x"].cos(), grad * KEPT["x"].sin()


class Popped(Function):
    """What the last call left is taken away by its backward."""

    kept: torch.Tensor | None = None

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Popped.kept = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        found, mine = Popped.kept, ctx.__dict__.setdefault("mine", Popped.kept)
        Popped.kept = None if found is mine else found
        return grad * mine


class OnCtx(Function):
    """The mask is kept on the class, too, but the one on ctx is used."""

    mask: torch.Tensor

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        OnCtx.mask = ctx.mask = torch.zeros_like(x).scatter_(-1, x.topk(2, dim=-1).indices, 1.0)
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.mask


class Stacked(Function):
    """Each backward finds its own on the stack, as backwards come in reverse order."""

    stack: ClassVar[list[torch.Tensor]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Stacked.stack.append(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        if not hasattr(ctx, "mine"):
            ctx.mine = Stacked.stack.pop()
        return grad * ctx.mine


@pytest.mark.parametrize(
    ("function", "inputs", "which"),
    [
        (Largest, (normal(4, 5),), "`x`"),
        (InGlobal, (normal(5).requires_grad_(), normal(5, seed=1).requires_grad_()), "`x` and `weight`"),
        (Popped, (normal(5),), ""),
    ],
)
def test_what_another_call_overwrites_is_told(
    function: type[Function], inputs: tuple[torch.Tensor, ...], which: str
) -> None:
    name = function.__name__
    report = bs.verify(
        lambda *given: function.apply(*given).sum() + function.apply(*[2 * x for x in given]).sum(), *inputs
    )
    (finding,) = report.findings
    assert not report.ok
    assert (finding.code, finding.title) == ("BS412", f"{name}.backward depends on another call of {name}.")
    assert which in finding.evidence[0]


@pytest.mark.parametrize("function", [OnCtx, Stacked])
def test_what_each_call_keeps_for_itself_is_right(function: type[Function]) -> None:
    assert bs.verify(lambda x: function.apply(function.apply(x)), normal(4, 5)).ok

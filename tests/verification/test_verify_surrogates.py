"""Gradients that are not the derivative on purpose: recognized, declared, and held to what they are declared to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function

import backsight as bs

x = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))


def made(forward: Callable[..., Any], backward: Callable[[Any, torch.Tensor], Any], name: str = "Made") -> Any:
    """Return a Function of one tensor; backward gets that tensor and grad_output."""

    def run(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return forward(x)

    def pull(ctx: Any, grad_output: torch.Tensor) -> Any:
        return backward(ctx.saved_tensors[0], grad_output)

    return type(name, (Function,), {"forward": staticmethod(run), "backward": staticmethod(pull)})


def reversal() -> Any:
    return made(lambda x: x.view_as(x), lambda x, g: -0.7 * g)


def by_norm(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return g * (1.0 / g.norm()).clamp(max=1.0)


RECOGNIZED = [
    (reversal, "note", "returns exactly -0.7 times the true gradient of `x`: a gradient reversal?"),
    (
        lambda: made(torch.clone, lambda x, g: -g),
        "note",
        "returns exactly -1 times the true gradient of `x`: a gradient",
    ),
    (
        lambda: made(torch.clone, lambda x, g: 0.1 * g),
        "note",
        "returns exactly 1/10 times the true gradient of `x`: sc",
    ),
    (lambda: made(torch.clone, lambda x, g: g.clamp(-0.5, 0.5)), "note", "clipped to 0.5 in each entry: on purpose?"),
    (lambda: made(torch.clone, by_norm), "note", "clipped to a norm of 1: on purpose?"),
    (lambda: made(torch.sin, lambda x, g: (g * x.cos()).clamp(-0.5, 0.5)), "warning", "clipped to 0.5 in each entry"),
    (lambda: made(torch.round, lambda x, g: g), "warning", "returns grad_output itself for `x`, on which forward"),
    (lambda: made(lambda x: x.clamp(-1, 1), lambda x, g: g), "warning", "passes grad_output straight through to `x`"),
]


@pytest.mark.parametrize(("function", "severity", "title"), RECOGNIZED)
def test_the_usual_surrogates_are_named(function: Any, severity: str, title: str) -> None:
    report = bs.verify(function(), x)
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("BS417", severity)
    assert title in finding.title
    assert report.ok == (severity == "note")


MISTAKES = [
    ("BS403", lambda: made(torch.sin, lambda x, g: -g * x.cos())),
    ("BS404", lambda: made(torch.sin, lambda x, g: 0.3 * g * x.cos())),
    ("BS408", lambda: made(torch.relu, lambda x, g: g * (x > -0.5))),
]


@pytest.mark.parametrize(("code", "function"), MISTAKES)
def test_a_mistake_is_no_surrogate(code: str, function: Any) -> None:
    assert [each.code for each in bs.verify(function(), x)] == [code]


DECLARED = [
    ("straight-through", made(torch.round, lambda x, g: g * (x.abs() < 1))),
    ("straight-through", made(lambda x: x.clamp(-1, 1), lambda x, g: g)),
    ("gradient-reversal", made(torch.sin, lambda x, g: -2 * g * x.cos())),
    ("scaled", made(torch.sin, lambda x, g: 0.3 * g * x.cos())),
    ("clipped", made(torch.sin, lambda x, g: (g * x.cos()).clamp(-0.5, 0.5))),
    ("guided ReLU", made(torch.relu, lambda x, g: g * (x > 0) * (g > 0))),
    ("fast sigmoid", made(lambda x: (x > 0).to(x.dtype), lambda x, g: g / (1 + 10 * x.abs()) ** 2)),
]


@pytest.mark.parametrize(("kind", "function"), DECLARED)
def test_what_is_declared_is_a_note(kind: str, function: Any) -> None:
    assert not bs.verify(function, x).ok
    (finding,) = bs.verify(function, x, surrogates=[function]).findings
    assert (finding.code, finding.severity) == ("BS417", "note")
    declared = bs.surrogate(kind)(made(function.forward, function.backward))
    declared.forward, declared.backward = function.forward, function.backward
    report = bs.verify(lambda x: declared.apply(x).exp(), x)
    assert report.ok, str(report)
    assert report.findings[0].title == f"Made.backward returns a declared surrogate for `x`: {kind}."
    bs.testing.assert_gradients_right(declared, x)


@pytest.mark.parametrize("kind", ["straight-through", "gradient-reversal", "scaled", "clipped"])
def test_what_is_something_else_than_declared_is_a_warning(kind: str) -> None:
    function = bs.surrogate(kind)(made(torch.sin, lambda x, g: g * x))
    report = bs.verify(function, x)
    assert [(each.code, each.severity) for each in report] == [("BS417", "warning")]
    assert report.findings[0].title == f"Made.backward returns a gradient for `x` that is declared {kind} but is not."


def test_a_declaration_excuses_nothing_else() -> None:
    changes = made(torch.round, lambda x, g: g.mul_(2))
    infinite = made(torch.round, lambda x, g: g / torch.zeros_like(x))
    for function, code in ((changes, "BS410"), (infinite, "BS419")):
        report = bs.verify(bs.surrogate("straight-through")(function), x)
        assert code in [each.code for each in report if each.severity == "error"]


def test_a_class_that_derives_from_a_declared_one_is_not_declared() -> None:
    declared = bs.surrogate("scaled")(made(torch.sin, lambda x, g: 2 * g * x.cos()))
    derived = type("Derived", (declared,), {})
    assert bs.verify(declared, x).ok and not bs.verify(derived, x).ok


def test_a_surrogate_under_vmap_is_a_note_too() -> None:
    @bs.surrogate("straight-through")
    class Round(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x.round()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return grad_output

    report = bs.verify(lambda x: torch.vmap(Round.apply)(x).exp(), x)
    assert {each.severity for each in report} == {"note"}
    assert report.skipped[0].why == "a surrogate in it is not the derivative" and report.ok


def test_only_functions_can_be_surrogates() -> None:
    with pytest.raises(TypeError, match=r"surrogate\(\) expects what the gradient is"):
        bs.surrogate(made(torch.sin, lambda x, g: g))  # type: ignore[arg-type]  # the point of it
    with pytest.raises(TypeError, match=r"surrogate\(\) expects torch.autograd.Function classes, not <function"):
        bs.surrogate("scaled")(lambda x: x)  # type: ignore[type-var]  # the point of it
    with pytest.raises(TypeError, match=r"verify\(surrogates=\[...\]\) expects torch.autograd.Function classes, not 3"):
        bs.verify(torch.sin, x, surrogates=[3])

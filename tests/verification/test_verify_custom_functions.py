"""However a custom Function is written and called, it is tested as that, with the arguments that it was given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import backsight as bs


class Function(torch.autograd.Function):
    """Its gradient is wrong: 2, where it is 3 times the factor."""

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 2, *(None for _ in ctx.needs_input_grad[1:])


class Plain(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class WithDefaults(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float = 1.0, *rest: float) -> torch.Tensor:
        return x * 3 * factor * (rest or (1.0,))[0]


class Separate(Function):
    @staticmethod
    def forward(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return x * 3 * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class Inherits(Separate):
    pass


class Decorated(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Closes(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (lambda: x * len(ctx.needs_input_grad) * 3)()


class OfTheClass(Function):
    factor = 3

    @classmethod
    def forward(cls, ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * cls.factor


class Changes(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(3)


class Around(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return Plain.apply(x)


plain = Plain.apply


def _takes_keywords() -> bool:
    try:
        Separate.apply(torch.ones(3), factor=2.0)
    except TypeError:
        return False
    return True


by_keyword = pytest.mark.skipif(
    not _takes_keywords(), reason="Function.apply of this PyTorch takes no keyword arguments"
)

CALLS = [
    ("Plain", 1, lambda x: Plain.apply(x)),
    ("Plain", 1, lambda x: plain(*[x])),
    ("WithDefaults", 1, lambda x: WithDefaults.apply(x)),
    ("WithDefaults", 2, lambda x: WithDefaults.apply(x, 2.0)),
    ("WithDefaults", 4, lambda x: WithDefaults.apply(x, 2.0, 3.0, 4.0)),
    ("Separate", 2, lambda x: Separate.apply(x)),
    pytest.param("Separate", 2, lambda x: Separate.apply(x, factor=2.0), marks=by_keyword),
    ("Inherits", 2, lambda x: Inherits.apply(x, 2.0)),
    ("Decorated", 1, lambda x: Decorated.apply(x)),
    ("Closes", 1, lambda x: Closes.apply(x)),
    ("Changes", 1, lambda x: Changes.apply(x.clone())),
    ("Around", 1, lambda x: Around.apply(x)),
]


@pytest.mark.parametrize("name, count, function", CALLS)
def test_a_custom_function_is_kept_with_its_arguments_and_the_line_that_called_it(
    name: str, count: int, function: Callable[[torch.Tensor], Any]
) -> None:
    from backsight.verification.recorder import recording

    x = torch.ones(3, requires_grad=True)
    with recording() as recorder:
        function(x).sum()
    assert [each.name for each in recorder.operations if each.custom] == [name]
    kept = next(each for each in recorder.operations if each.custom)
    assert (len(kept.arguments), kept.argument(0), recorder.unseen) == (count, "x", 0)
    assert torch.equal(kept.arguments[0].value, torch.ones(3)), "as it was before the forward"
    assert kept.site[:2] == (__file__, function.__code__.co_firstlineno)
    (finding,) = bs.verify(function, x).findings
    assert (finding.operation, finding.input) == (name, "x")


def test_a_forward_that_is_a_class_method_has_its_class_among_no_arguments() -> None:
    from backsight.verification.recorder import recording

    x = torch.ones(3, requires_grad=True)
    with recording() as recorder:
        OfTheClass.apply(x)
    assert [len(each.arguments) for each in recorder.operations] == [1]
    assert bs.verify(OfTheClass, x).findings


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(functools.partial(Separate.apply, factor=2.0), marks=by_keyword),
        lambda x: next(map(Plain.apply, [x])),
    ],
)
def test_one_that_is_called_from_c_is_not_lost(function: Callable[[torch.Tensor], Any]) -> None:
    assert bs.verify(function, torch.ones(3)).findings


def test_where_no_gradient_is_asked_for_nothing_is_kept() -> None:
    from backsight.verification.recorder import recording

    x = torch.ones(3, requires_grad=True)
    with recording() as recorder:
        with torch.no_grad():
            Plain.apply(x)
        Plain.apply(x.detach())
        with pytest.raises(TypeError):
            Plain.apply(x, 1.0)
        assert not recorder.operations
        Plain.apply(x)
    assert [each.name for each in recorder.operations] == ["Plain"]

"""What is wrong with a tensor, told from its statistics over the last steps."""

from __future__ import annotations

import pytest

from backsight.tables.problems import STEPS_TO_MOVE, Moment, problems

ALIVE = Moment(mean=0.5, min=0.0, max=1.0, m2=1.0, elements=8, zeros=1, nans=0, infs=0)
DEAD = Moment(mean=0.0, min=0.0, max=0.0, m2=0.0, elements=8, zeros=8, nans=0, infs=0)
SPOILT = ALIVE._replace(nans=3)


def said(moments: list[Moment | None], kind: str = "output", first: Moment | None = None, before: int = 0) -> list[str]:
    """What is said of a tensor at the last of these steps, `before` recorded steps after the first of the run."""
    steps = range(100, 100 + len(moments))
    return [problem.text for problem in problems(kind, "float32", steps, moments, first, before)]


@pytest.mark.parametrize(
    ("moments", "before", "text"),
    [
        ([ALIVE, DEAD], 1, "all zero at this step"),
        ([DEAD, DEAD, DEAD], 2, "all zero in all 3 steps"),
        ([ALIVE, DEAD, DEAD], 2, "all zero for 2 steps"),
        ([DEAD, DEAD, DEAD], 3, "all zero for at least 3 steps"),
    ],
)
def test_how_long_a_tensor_has_been_dead(moments: list[Moment | None], before: int, text: str) -> None:
    assert said(moments, before=before) == [text]


def test_zeros_are_a_problem_of_what_is_meant_to_be_alive() -> None:
    assert said([DEAD], kind="input") == []
    assert said([DEAD._replace(elements=0, zeros=0)]) == []


@pytest.mark.parametrize(
    ("moments", "text"),
    [
        ([SPOILT, ALIVE], "was not finite at step 100"),
        ([ALIVE, SPOILT], "not finite at this step"),
        ([ALIVE, SPOILT, SPOILT], "not finite since step 101"),
        ([SPOILT, ALIVE, SPOILT], "not finite since step 100 or before"),
        ([None, SPOILT, SPOILT], "not finite since step 101"),
    ],
)
def test_since_when_a_tensor_is_not_finite(moments: list[Moment | None], text: str) -> None:
    assert said(moments) == [text]


def test_a_weight_has_some_steps_to_move_in() -> None:
    assert said([ALIVE], "weight", ALIVE, STEPS_TO_MOVE) == [f"has not moved in {STEPS_TO_MOVE} recorded steps"]
    assert said([ALIVE], "weight", ALIVE, STEPS_TO_MOVE - 1) == []
    assert said([ALIVE], "weight", ALIVE._replace(mean=0.25), STEPS_TO_MOVE) == []
    assert said([ALIVE], "weight", None, STEPS_TO_MOVE) == [], "one that is frozen"

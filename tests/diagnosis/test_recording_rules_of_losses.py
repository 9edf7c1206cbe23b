"""BS311: a loss that fell and rose again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from audits import of, one
from recorded import marked

STEPS = 200
NOISE = np.random.default_rng(0).normal(size=STEPS)
RISEN = np.r_[np.geomspace(2.3, 0.3, 100), np.geomspace(0.3, 1.9, 40), np.full(60, 1.9)] + 0.05 * NOISE
FALLEN = np.geomspace(2.3, 0.3, STEPS) + 0.05 * NOISE
NOISY = np.geomspace(5, 3, STEPS) + 1.5 * np.abs(NOISE)


def evaluated(values: np.ndarray) -> np.ndarray:
    """A loss that is taken in one step of ten."""
    return np.array([value if step % 10 == 9 else None for step, value in enumerate(values)])


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "losses",
    [
        {"loss": RISEN},
        {"loss": RISEN, "val_loss": evaluated(RISEN)},
        {"loss": np.r_[RISEN[:100], np.geomspace(0.3, 1e6, 100)]},
        {"loss": RISEN, "lr": np.r_[np.linspace(0, 0.3, 20), np.full(180, 0.3)]},
    ],
)
def test_it_is_a_warning_where_every_loss_rose(losses: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = marked(tmp_path, losses)
    assert not of(found, "BS310")
    finding = one(found, "BS311")
    assert finding.severity == "warning" and finding.title.endswith(" fell and rose again.")


def test_its_course_and_the_learning_rate_are_told(tmp_path: Path) -> None:
    losses = {"loss": RISEN, "val_loss": evaluated(RISEN), "lr": np.full(STEPS, 0.3)}
    finding = one(marked(tmp_path, losses), "BS311")
    assert finding.title == "The losses 'loss' and 'val_loss' fell and rose again."
    assert finding.evidence == (
        "loss: 2.247 at first, 0.3545 at best, up to step 99, and 1.888 at the end (medians).",
        "val_loss: 1.608 at first, 0.453 at best, up to step 89, and 1.888 at the end (medians).",
    )
    assert finding.fix == (
        "The learning rate, 0.3, is probably too high: lower it, let it decay, or clip gradients. The best weights are "
        "those of around step 89."
    )


@pytest.mark.parametrize(
    "losses",
    [
        {"loss": FALLEN},
        {"loss": NOISY},
        {"loss": 2.3 + 0.3 * NOISE},
        {"loss": np.r_[FALLEN[:180], np.linspace(0.4, 0.8, 20)]},  # it has not lost half
        {"loss": np.r_[RISEN[:140], np.geomspace(1.9, 0.9, 60)]},  # it recovers
        {"loss": RISEN - 2},  # of either sign, as that of a policy
        {"loss": FALLEN, "val_loss": evaluated(RISEN)},  # it overfits
        {"d_loss": RISEN, "g_loss": 4 - RISEN},  # a game
        {"loss": RISEN, "lr": np.r_[np.linspace(0.1, 0, 100), np.linspace(0.1, 0, 100)]},  # warm restarts
        {"loss": np.r_[RISEN, np.nan]},
        {"loss": RISEN[::5]},
    ],
)
def test_what_may_be_meant_is_in_order(losses: dict[str, np.ndarray], tmp_path: Path) -> None:
    assert not of(marked(tmp_path, losses), "BS311")


def test_a_curriculum_is_in_order(tmp_path: Path) -> None:
    def harder(step: int) -> torch.Tensor:
        return torch.randn(32, 8) * (1 + (step >= 100))

    assert not of(marked(tmp_path / "given", {"loss": RISEN}, harder), "BS311")
    assert one(marked(tmp_path / "worse", {"loss": RISEN, "val_loss": evaluated(RISEN)}, harder), "BS311")

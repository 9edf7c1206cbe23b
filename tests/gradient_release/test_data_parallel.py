"""Two ranks: released steps have the bits of DDP, FSDP2 and averaged gradients; see `ranks.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import fresh
import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="needs gloo"
)


def told_by_two_ranks(what, folder):
    """Run a function of `ranks.py` on two ranks, and return the last line of each, or everything if one failed."""
    program = str(Path(__file__).with_name("ranks.py"))
    commands = ([sys.executable, program, what, str(folder / what), str(rank)] for rank in range(2))
    return [
        (rank.stdout.splitlines() or [""])[-1] if rank.returncode == 0 else rank.stderr
        for rank in fresh.run_together(*commands, timeout=120)
    ]


@pytest.mark.parametrize(
    "what",
    [
        "in_ddp",
        "in_ddp_gradients_are_freed",
        "in_ddp_errors_are_loud",
        "in_ddp_removed",
        "in_ddp_uneven",
        "over_a_group",
        "over_a_group_errors_are_loud",
        "in_fsdp",
        "in_fsdp_checkpoints_move",
        "in_fsdp_clipped",
        "in_fsdp_errors_are_loud",
        *(
            pytest.param(f"{what}_every_way", marks=pytest.mark.long)
            for what in ("in_ddp", "over_a_group", "in_fsdp_clipped")
        ),
    ],
)
def test_two_ranks(what, tmp_path):
    assert told_by_two_ranks(what, tmp_path) == ["done", "done"]


def test_a_rank_that_fails_in_backward_does_not_leave_the_other_waiting(tmp_path):
    assert told_by_two_ranks("in_ddp_one_fails", tmp_path) == ["failed", "failed"]

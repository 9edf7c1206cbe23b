"""Two ranks: released steps have the bits of DDP, FSDP2 and averaged gradients; see `ranks.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="needs gloo"
)


def told_by_two_ranks(what, folder):
    """Run a function of `ranks.py` on two ranks, and return the last line of each, or everything if one failed."""
    program = str(Path(__file__).with_name("ranks.py"))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", program, what, str(folder / what), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [rank.communicate(timeout=120) for rank in ranks]
    return [
        (out.splitlines() or [""])[-1] if rank.returncode == 0 else err
        for rank, (out, err) in zip(ranks, told, strict=True)
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
    ],
)
def test_two_ranks(what, tmp_path):
    assert told_by_two_ranks(what, tmp_path) == ["done", "done"]


def test_a_rank_that_fails_in_backward_does_not_leave_the_other_waiting(tmp_path):
    assert told_by_two_ranks("in_ddp_one_fails", tmp_path) == ["failed", "failed"]

"""Lightning and the Trainer of transformers over two processes: released, with the bits of DDP or FSDP2 alone."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

import fresh
import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="needs gloo"
)


def told_by_two_ranks(host):
    """Train under a host on two ranks, and return the last line of each, or everything if one failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = [sys.executable, str(Path(__file__).with_name("host_ranks.py")), host, port]
    return [
        (rank.stdout.splitlines() or [""])[-1] if rank.returncode == 0 else rank.stderr
        for rank in fresh.run_together(*([*program, str(rank)] for rank in range(2)))
    ]


@pytest.mark.parametrize("host", ["lightning", "lightning_manual", "lightning_sharded", "transformers"])
def test_a_released_training_over_two_ranks_has_the_bits_of_one_without(host):
    package = host.partition("_")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package.upper()} IS NOT TESTED OVER RANKS: pip install {package}")
    assert told_by_two_ranks(host) == ["done", "done"]

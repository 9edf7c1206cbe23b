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


@pytest.mark.parametrize("host", ["lightning", "lightning_manual", "lightning_sharded", "transformers"])
def test_a_released_training_over_two_ranks_has_the_bits_of_one_without(host):
    package = host.partition("_")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package.upper()} IS NOT TESTED OVER RANKS: pip install {package}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ended = fresh.run([sys.executable, str(Path(__file__).with_name("host_ranks.py")), host, port])
    assert (ended.returncode, ended.stdout.splitlines().count("done")) == (0, 2), ended.stderr

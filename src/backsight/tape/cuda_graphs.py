"""Whether what is asked of a device now is only written down for later, as part of a CUDA graph."""

from __future__ import annotations

import sys

import torch

_FRAMES = 64


def is_captured() -> bool:
    """Return whether the current stream is being captured in a CUDA graph.

    Nothing has a value then. What reads one breaks the capture, and what is launched is launched again by each replay,
    when the memory that it was given may be somebody else's.
    """
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # type: ignore[no-untyped-call]


def is_warming_up() -> bool:
    """Return whether `torch.compile` runs what it will capture in a CUDA graph, in the memory of that graph.

    What is allocated meanwhile and stays alive is taken for a leak, which ends the program.
    Source: torch/_inductor/cudagraph_trees.py, `CUDAWarmupNode.run`, `check_memory_pool`.
    """
    trees = getattr(sys.modules.get("torch._inductor.cudagraph_trees"), "__file__", None)
    frame = sys._getframe(1) if trees else None
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_filename == trees:
            return True
        frame = frame.f_back
    return False

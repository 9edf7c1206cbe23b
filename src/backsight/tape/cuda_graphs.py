"""Whether what is asked of a device now is only written down for later, as part of a CUDA graph."""

from __future__ import annotations

import torch


def is_captured() -> bool:
    """Return whether the current stream is being captured in a CUDA graph.

    Nothing has a value then. What reads one breaks the capture, and what is launched is launched again by each replay,
    when the memory that it was given may be somebody else's.
    """
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # type: ignore[no-untyped-call]

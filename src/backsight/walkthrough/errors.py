"""What a walk says when it cannot be made, or cannot go on."""

from __future__ import annotations


class WalkError(RuntimeError):
    """A backward pass that cannot be walked, or a question to a walk that it cannot answer. The message says why."""

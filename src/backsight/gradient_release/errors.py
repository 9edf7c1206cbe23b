"""What gradient release raises, each with what, which parameter, and the fix."""

from __future__ import annotations


class ReleaseError(RuntimeError):
    """Gradient release cannot do what was asked, and has changed nothing silently."""


class NotReleasable(ReleaseError):
    """Releasing the gradients of this optimizer would not be exact, or not work; it was not attached."""


class AlreadyStepped(ReleaseError):
    """Something came too late for a parameter that has already taken this step, such as a second gradient."""


class CoupledOptimizer(ReleaseError):
    """The optimizer computes something from the gradients of several parameters at once."""


class GradientGone(ReleaseError):
    """A gradient is read or changed that was used for a step, and freed."""


class ReleaseWarning(UserWarning):
    """Gradient release does not save the memory that it could, or a half-taken step is being stored."""

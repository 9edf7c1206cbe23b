"""Gradient release: the optimizer steps inside of the backward pass, and gradients are freed as they are used.

Offered to other rooms: `bucket`, `data_parallel`, `placeholder`.
"""

from backsight.gradient_release.attach import release
from backsight.gradient_release.errors import (
    AlreadyStepped,
    CoupledOptimizer,
    GradientGone,
    NotReleasable,
    ReleaseError,
    ReleaseWarning,
)
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.release import Release

__all__ = [
    "AlreadyStepped",
    "CoupledOptimizer",
    "Evidence",
    "GradientGone",
    "NotReleasable",
    "Release",
    "ReleaseError",
    "ReleaseWarning",
    "release",
]

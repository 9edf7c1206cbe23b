"""Where the time of a training step goes: by autograd node, forward and backward, by module and by parameter."""

from backsight.profiling._torch import is_profiling
from backsight.profiling.backward import profile_backward
from backsight.profiling.hush import QuietProfiler, hush_kineto
from backsight.profiling.profile import Profile
from backsight.profiling.row import Row
from backsight.profiling.session import Profiling, ProfilingError, profile

__all__ = [
    "Profile",
    "Profiling",
    "ProfilingError",
    "QuietProfiler",
    "Row",
    "hush_kineto",
    "is_profiling",
    "profile",
    "profile_backward",
]

"""The autograd errors that can be explained, each in a file of its own, in the order of their codes.

An explanation is a function from a `Failure` and the match of PyTorch's message to a finding:

    @explains("BS206", r"can't optimize a non-leaf Tensor")
    def non_leaf_in_optimizer(failure: Failure, match: re.Match[str]) -> Finding: ...
"""

from backsight.diagnosis.errors import (
    non_leaf,
    scalar_outputs,
    second_backward,
)
from backsight.diagnosis.errors.registry import ERRORS, Known, explains, known

__all__ = ["ERRORS", "Known", "explains", "known", "non_leaf", "scalar_outputs", "second_backward"]

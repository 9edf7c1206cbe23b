"""The autograd errors that can be explained, each in a file of its own, in the order of their codes.

An explanation is a function from a `Failure` and the match of PyTorch's message to a finding:

    @explains("BS206", r"can't optimize a non-leaf Tensor")
    def non_leaf_in_optimizer(failure: Failure, match: re.Match[str]) -> Finding: ...
"""

from backsight.diagnosis.errors import (  # noqa: F401  # each enters itself
    checkpoint,
    devices,
    double_backward,
    empty_optimizer,
    gpu,
    grad_scaler,
    gradient_count,
    gradient_shape,
    hook_result,
    inference_tensor,
    integer_leaf,
    kept_alive,
    leaf_in_place,
    lost_tensor,
    missing_gradient,
    modified,
    no_grad,
    no_output,
    non_leaf,
    out_of_memory,
    ready_twice,
    result_refused,
    scalar_outputs,
    schedule_over,
    second_backward,
    unused_in_ddp,
    unused_input,
    view_in_place,
    vmap,
    warned,
)
from backsight.diagnosis.errors.registry import ERRORS, Known, explains, known

__all__ = [
    "ERRORS",
    "Known",
    "explains",
    "known",
]

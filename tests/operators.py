"""PyTorch's database of operators with samples of what each takes.

For each operator's samples PyTorch asks which of its own tests is running: it reads the source of every level of the
stack, which takes longer than the samples. None is.
"""

from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _none() -> None:
    pass


for module in (common_utils, core):
    module.extract_test_fn = _none

"""PyTorch's database of operators with samples of what each takes.

For each operator's samples PyTorch asks which of its own tests is running: it reads the source of every level of the
stack, which takes longer than the samples. None is.

It is given by a function: what a module of tests holds, each search for a name looks through, and this is large.
"""

from typing import Any


def operators() -> list[Any]:
    """Return the operators."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

    for module in (common_utils, core):
        module.extract_test_fn = _none
    return op_db


def _none() -> None:
    pass

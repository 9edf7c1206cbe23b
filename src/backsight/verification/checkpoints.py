"""What a reentrant checkpoint runs: in its forward without gradients, and in backward only then with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.checkpoint import CheckpointFunction

from backsight.verification.errors import raised
from backsight.verification.operation import Kept, Operation
from backsight.verification.recorder import Recorder, Unkept, recording


def opened(recorder: Recorder) -> list[Operation]:
    """Return the operations of a recorder, with those that a checkpoint runs in place of the checkpoint.

    Each runs once more, with gradients, as in its backward.
    """
    for operation in (opening := recorder.operations):  # what a checkpoint runs is added: it may be a checkpoint too
        if operation.custom is CheckpointFunction:
            before = len(opening)
            function, arguments = _given(operation)
            try:
                with recording(recorder):
                    function(*arguments)
            except Exception as error:  # of the program
                recorder.failed[operation.name] = Unkept(operation.name, f"rerun, it raises {raised(error)}", True)
            if len(opening) == before and not recorder.unseen:
                why = "the function it runs has no backward"
                recorder.failed.setdefault(operation.name, Unkept(operation.name, why, own=True))
    return [each for each in opening if each.custom is not CheckpointFunction]


def _given(checkpoint: Operation) -> tuple[Callable[..., Any], list[Any]]:
    """Return the function that a checkpoint runs, and copies of what it runs it with: no leaves, as in its forward."""
    function, _, *arguments = checkpoint.arguments  # the second says whether to keep the state of the generators
    return function, [
        each.value.clone().requires_grad_(each.wanted).clone() if type(each) is Kept else each for each in arguments
    ]

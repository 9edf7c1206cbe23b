"""BS221: DistributedDataParallel gets the gradient of a parameter twice in one backward pass."""

from __future__ import annotations

import re

from backsight.diagnosis._torch import CHECKPOINT_FILE
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.one_pass import several_backwards
from backsight.diagnosis.evidence.reentrant import Reentrant, reentrant_call
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.story.failure import Failure

_PARAMETER = re.compile(r"Parameter at index \d+(?: with name (\S+))? has been marked as ready twice")


@explains("BS221", r"Expected to mark a variable ready only once")
def ready_twice(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the parameter, and the reentrant checkpoints whose backward passes are passes of their own."""
    found = _PARAMETER.search(failure.message)
    name = (found[1] if found else None) or "a parameter"
    reentrant = any(level.frame.f_code.co_filename == CHECKPOINT_FILE for level in failure.levels)
    if not reentrant and (again := several_backwards(failure)) is not None:
        return explanation(
            f"DistributedDataParallel received the gradient of {name} twice for one forward pass; each forward pass "
            "prepares it for one backward pass.",
            (
                shown(again.forward, "runs the wrapped model."),
                *(shown(each, "backpropagates through it.") for each in again.earlier),
                *failing(failure, "backpropagates through it again."),
            ),
            again.fix,
            source=failure.source,
            exact=found is not None,
        )
    call = reentrant_call(failure) if reentrant else None
    place = call.place if call is not None else None
    own = "runs its own backward pass each time it is called (use_reentrant=True)."
    lines = [shown(place, own)] if place is not None else []
    lines += failing(failure, f"backpropagates through {name} more than once.")
    return explanation(
        f"DistributedDataParallel received the gradient of {name} twice in one backward pass; it averages each "
        "gradient once.",
        tuple(lines),
        _fix_of_checkpoint(call) if reentrant else _FIX,
        source=str(place) if place else failure.source,
        exact=found is not None and (place is not None or not reentrant),
    )


_FIX = (
    "Call the wrapped model once for each backward pass, and use its parameters only within its forward. If every step "
    "runs the same operations, DistributedDataParallel(model, static_graph=True) counts how often each gradient "
    "arrives."
)


def _fix_of_checkpoint(call: Reentrant | None) -> str:
    if call is None or not call.mended:
        return (
            "Use a non-reentrant checkpoint, which stays in one backward pass: use_reentrant=False where "
            "checkpoint() is called, or model.gradient_checkpointing_enable(gradient_checkpointing_kwargs="
            '{"use_reentrant": False}).'
        )
    return (
        f"Use a non-reentrant checkpoint, which stays in one backward pass: on line {call.place.line}, write "
        f"`{call.mended}`."
    )

"""What to do about something that came too late for a parameter, by what is known of how it came to that."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from backsight.tape import alive, backward_number
from backsight.text import listed

if TYPE_CHECKING:
    from backsight.gradient_release.arrival import Slot
    from backsight.gradient_release.ledger import Ledger

_ACCUMULATE = (
    "If you accumulate gradients over several batches, run all but the last within `with release.accumulate():`. "
    "For several losses, call backward() once on their sum."
)
_NOT_REENTRANT = "Use checkpoint(..., use_reentrant=False), which gives each parameter one gradient."
_FREEZE = (
    "If this is the loss of another model that passes through this one, like a generator through its discriminator, "
    "freeze this one meanwhile: model.requires_grad_(False) before that forward, and True after its backward."
)


def second_gradient(slot: Slot) -> str:
    """Say that a parameter gets a second gradient after it was stepped with the first."""
    ledger, name = slot.ledger, slot.name()
    what = f"{name} received a second gradient after it was stepped with the first one. "
    if slot.number != ledger.number:
        if _another_optimizer(slot):
            return f"{what}{_FREEZE} If not, call zero_grad() after each optimizer.step()."
        return f"{what}Its optimizer.step() is done: call zero_grad() after each optimizer.step()."
    if _under_reentrant_checkpoint(ledger):
        return f"{what}Both arrived in one backward pass, in which reentrant checkpoints run others. {_NOT_REENTRANT}"
    return what + _for_another_backward(ledger)


def used_too_early(name: str, ledger: Ledger) -> str:
    """Say that a parameter is used for a further forward before its optimizer's step."""
    return (
        f"{name} is used in another forward before optimizer.step(), after it took this step inside backward: "
        f"{taken_by(ledger)} took it already. {_for_another_backward(ledger)} To evaluate, call "
        "optimizer.step() first."
    )


def read_too_early(name: str, ledger: Ledger) -> str:
    """Say that a parameter is read between backward and step."""
    return (
        f"{name} is read between backward() and optimizer.step(), where the ordinary loop has old weights. Here "
        f"{taken_by(ledger)} took this step already, inside backward. Read, evaluate, average and save "
        "a model after optimizer.step()."
    )


def read_in_backward(name: str, ledger: Ledger) -> str:
    """Say that a parameter is read inside of backward after it was stepped there."""
    what = f"{name} is read inside the backward pass, which already stepped it"
    if _under_reentrant_checkpoint(ledger):
        return f"{what}: a reentrant checkpoint runs its forward again. {_NOT_REENTRANT}"
    return (
        f"{what}: a function under checkpoint() runs again, or the backward of a custom Function or a hook reads it. "
        f"The ordinary loop finds its old value there. In the forward, outside of checkpoint(), take `held = "
        f"{name.rpartition('.')[2]}.detach()`, and read that: while it is alive the parameter waits for "
        "optimizer.step(), and the step is exact. Or keep all gradients of this step: run its backward within `with "
        "release.accumulate():`."
    )


def thrown_away(slots: Sequence[Slot]) -> str:
    """Say that gradients were zeroed without a step."""
    return (
        f"zero_grad() came before optimizer.step(), but {listed([slot.name() for slot in slots], 3)} took this step "
        "inside backward: it can no longer be skipped and is partly taken. Decide before backward(), or run it "
        "within `with release.accumulate():`. To complete the step, call optimizer.step() instead of zero_grad()."
    )


def taken_by(ledger: Ledger) -> str:
    """Return the names of the parameters that have taken the step under way."""
    return listed([slot.name() for slot, _ in ledger.stepped], 3)


def _for_another_backward(ledger: Ledger) -> str:
    """Say what to do if a further backward comes before the step."""
    if ledger.passing:
        return (
            "An earlier backward was interrupted: optimizer.step() ends its step as it is; release.stepped names the "
            "parameters that took it."
        )
    if ledger.thrown_away:
        return (
            "Since then its gradient was zeroed without optimizer.step(), so that backward was not meant to train it. "
            f"{_FREEZE} To skip a step, decide before backward()."
        )
    return f"{_ACCUMULATE} {_FREEZE}"  # what is usual first


def _under_reentrant_checkpoint(ledger: Ledger) -> bool:
    """Whether the parameter was stepped, or gets its gradient now, in a backward pass within another.

    That of a pass within another has the greater number, and is of PyTorch's `CheckpointFunction`.
    """
    if backward_number() < ledger.backward:
        return True
    return any(
        frame.f_code.co_name == "backward" and frame.f_code.co_filename.endswith("checkpoint.py")
        for frame, _ in traceback.walk_stack(None)
    )


def _another_optimizer(slot: Slot) -> bool:
    """Whether there is an optimizer that does not hold this parameter, so that there is another model to train."""
    groups = [vars(each).get("param_groups") for each in alive(torch.optim.Optimizer)]
    return any(
        isinstance(group, list) and slot.key not in {id(each) for one in group for each in one["params"]}
        for group in groups
    )

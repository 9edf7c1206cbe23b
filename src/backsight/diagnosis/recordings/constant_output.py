"""BS308: a module returns the same number for everything."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import Silence, given, is_constant, is_zero, silences
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.saturated import saturations
from backsight.diagnosis.wording import counted, warning


@rule("BS308")
def constant_output(recording: Recording) -> Iterator[Finding]:
    """All elements of an output were the same number for ten steps up to the end, though the input varies.

    Where that number is 0, or the bound of a saturated activation, BS304 and BS305 say so. A module of the program's
    own that has no parameters, and never returned anything else, makes a mask or the like.
    """
    flat = {module.name for module, _, _ in saturations(recording)}
    for silence in silences(recording, is_constant):
        if silence.module.name in flat or is_zero(silence.rows)[-1] or _is_made_so(silence):
            continue
        yield warning(
            "BS308",
            f"{silence.module.label} has returned the same number everywhere since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1])} elements of {silence.rows.tensor.name} were equal "
                f"({silence.rows['mean'][-1]:.4g} in the last step), in {counted(silence.steps, 'recorded step')}, to "
                f"the end{given(recording, silence.module)}.",
            ),
            "The network has collapsed here: check the scale of the module's input, its weights, and the learning "
            "rate.",
        )


def _is_made_so(silence: Silence) -> bool:
    module = silence.module
    own = module.is_leaf and not module.trains and not hasattr(torch.nn, module.type)
    return own and bool(is_constant(silence.rows).all())

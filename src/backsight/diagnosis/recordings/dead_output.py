"""BS304: a module returns nothing but zeros."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import Silence, given, is_dying, is_zero, silences
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted, warning

_OF_ACTIVATIONS = (
    "ReLU units die when all their inputs are negative: lower the learning rate, clip gradients, start with zero "
    "biases, or use LeakyReLU or GELU."
)
_OF_LAYERS = (
    "Check how its weights are initialized, whether they are trained, and whether weight decay shrank them to 0."
)


@rule("BS304")
def dead_output(recording: Recording) -> Iterator[Finding]:
    """All of an output has been zero for ten steps up to the end, though the input of the module is not constant.

    Hardly any element in a few of these steps makes no difference.
    """
    for silence in silences(recording, is_dying):
        zeros, steps = _zero_steps(silence), silence.steps
        almost, no = ("", "no") if zeros == steps else ("almost ", "hardly any")
        often = counted(steps, "recorded step") if zeros == steps else f"{zeros} of {counted(steps, 'recorded step')}"
        yield warning(
            "BS304",
            f"{silence.module.label} has returned {almost}only zeros since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1])} elements of {silence.rows.tensor.name} were 0 in "
                f"{often}, to the end{given(recording, silence.module)}.",
                f"Layers before it get {no} gradient through it.",
            ),
            _OF_LAYERS if silence.module.trains else _OF_ACTIVATIONS,
        )


def _zero_steps(silence: Silence) -> int:
    """Return in how many of its steps all of the output is zero."""
    rows = silence.rows.during(silence.since)
    steps = set(rows["step"].tolist())
    return len(steps - set(rows["step"][~is_zero(rows)].tolist()))

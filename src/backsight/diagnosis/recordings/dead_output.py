"""BS304: a module returns nothing but zeros."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import given, is_zero, silences
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted

_OF_ACTIVATIONS = (
    "ReLU units die when all their inputs are negative: lower the learning rate, clip gradients, start with zero "
    "biases, or use LeakyReLU or GELU."
)
_OF_LAYERS = (
    "Check how its weights are initialized, whether they are trained, and whether weight decay shrank them to 0."
)


@rule("BS304")
def dead_output(recording: Recording) -> Iterator[Finding]:
    """All of an output has been zero for ten steps up to the end, though the input of the module is not constant."""
    for silence in silences(recording, is_zero):
        yield Finding(
            "BS304",
            "warning",
            f"{silence.module.label} has returned only zeros since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1])} elements of {silence.rows.tensor.name} were 0 in "
                f"{counted(silence.steps, 'recorded step')}, to the end{given(recording, silence.module)}.",
                "Layers before it get no gradient through it.",
            ),
            _OF_LAYERS if silence.module.trains else _OF_ACTIVATIONS,
        )

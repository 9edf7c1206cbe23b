"""BS140: what a model is given grows or shrinks, as its data are changed in place where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import program_frames
from backsight.diagnosis.wording import listed, numbered, shown
from backsight.source.stored import changed_where_read

CODES = ("BS140",)


def growing(model: str, sizes: Sequence[tuple[int, float]], frame: FrameType) -> Finding | None:
    """Return the finding that inputs change in size, if one statement of the program may be what changes them.

    sizes: the steps at which they were looked at, and the root of their mean square.
    """
    files = dict.fromkeys(each.f_code.co_filename for each in program_frames(frame))
    found = [place for file in files for place in changed_where_read(file)]
    if len(found) != 1:
        return None
    (first, before), (last, after) = sizes[0], sizes[-1]
    grows = after > before
    factor = after / before if grows else before / after
    steps = listed([f"{size:.3g} at step {numbered(step)}" for step, size in sizes])
    return Finding(
        "BS140",
        "warning",
        f"The input of {model} {'grows' if grows else 'shrinks'}: it is {factor:.3g} times as "
        f"{'large' if grows else 'small'} at step {numbered(last)} as at step {numbered(first)}.",
        (
            f"The RMS of its inputs is {steps}.",
            shown(found[0], "modifies stored data in place each time it is read.", "read"),
        ),
        "Create a new tensor there, as x = (x - mean) / std does. Or modify a copy of the stored data.",
        source=str(found[0]),
        exact=False,
        since=first,
    )

"""Which frames are the program's own: what is neither installed, nor of the standard library, nor ours."""

from __future__ import annotations

from types import FrameType

from backsight.naming.roots import is_ours, is_user

_MOST = 10_000

known: dict[str, bool] = {}
"""By the name of a file, whether it is the program's. Tracers read it directly: it is asked at every call."""


def is_programs(frame: FrameType) -> bool:
    """Whether `frame` runs code of the program; looked up once a file."""
    file = frame.f_code.co_filename
    found = known.get(file)
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        # Code that torch.fx and dynamo generate has a name of this form, and no line that a person wrote.
        generated = file.startswith(("<eval_with_key>", "<frozen"))
        found = known[file] = not generated and not is_ours(file) and is_user(frame)
    return found


def innermost(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the program from `frame` outwards."""
    get = known.get
    while frame is not None:
        found = get(frame.f_code.co_filename)
        if found or (found is None and is_programs(frame)):
            return frame
        frame = frame.f_back
    return None

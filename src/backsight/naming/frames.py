"""Read the local variables of a frame and leave the frame as it was.

Up to Python 3.12 `frame.f_locals` is not a plain read: it fills one dict per frame, the snapshot. That dict keeps a
deleted local alive until the frame ends, and it is the very dict that `locals()` returned to the user, now rewritten.
So the snapshot is emptied, or put back to what it held before. Python 3.13 (PEP 667) has neither trap.
"""

from __future__ import annotations

import ctypes
import sys
from types import FrameType
from typing import Any

_OPTIMIZED = 0x3  # CO_OPTIMIZED | CO_NEWLOCALS: a function's frame, whose f_locals is not its real namespace


def is_function(frame: FrameType) -> bool:
    """True for the frame of a function, False for that of a module, class body or exec."""
    return frame.f_code.co_flags & _OPTIMIZED == _OPTIMIZED


def locals_of(frame: FrameType) -> dict[str, object]:
    """The variables of a function's frame, copied, without those that no source names (`.0`, pytest's `@py_assert1`).

    >>> import sys
    >>> def f(x): return locals_of(sys._getframe())
    >>> f(1)
    {'x': 1}
    """
    return {name: held for name, held in _read(frame).items() if name.isidentifier()}


def frame_namespace(frame: FrameType) -> dict[str, object]:
    """The names of the frame of a module, class body or exec: the real namespace, which is not to be changed.

    Empty where it is a mapping of the user's own making. Amid a comprehension, whose variables are the frame's own from
    3.12 on, it is a copy with these; Python 3.13 shows them alone, and the globals are added for what is no class body.
    """
    held: Any = frame.f_locals
    if type(held) is dict:
        return held
    if type(held) is not _VARIABLES:
        return {}
    around = frame.f_globals if frame.f_code.co_name == "<module>" else {}
    return {**around, **dict(held)}


def _read(frame: FrameType) -> dict[str, object]:
    if sys.version_info >= (3, 13) or type(frame) is not FrameType:  # what stands for one, of which only a text tells
        return dict(frame.f_locals)
    before = _snapshot_of(frame)
    kept = dict(before) if type(before) is dict else None
    snapshot = frame.f_locals
    found = dict(snapshot)
    if kept is not None:
        snapshot.clear()
        snapshot.update(kept)
    elif sys.getrefcount(snapshot) <= 3 and (_LAYOUT or _untraced(frame)):  # the frame, this variable, the argument
        snapshot.clear()
    return found


def _untraced(frame: FrameType) -> bool:
    """A tracer writes the snapshot back into the variables: emptying it under its hands would unset them."""
    return frame.f_trace is None and sys.gettrace() is None


# Where CPython keeps the snapshot (Include/cpython/frameobject.h of 3.10, Include/internal/pycore_frame.h of 3.11 and
# 3.12; no other version needs it). Checked once against f_globals and f_builtins of a live frame; where the check
# fails the snapshot is not looked at, and is emptied only when nobody can notice.
_VERSION: tuple[int, int] = (sys.version_info[0], sys.version_info[1])
_WORDS_BEFORE_GLOBALS = {(3, 11): 1, (3, 12): 3}


class _Inner(ctypes.Structure):
    _fields_ = [
        ("before", ctypes.c_void_p * _WORDS_BEFORE_GLOBALS.get(_VERSION, 1)),
        ("globals", ctypes.c_void_p),
        ("builtins", ctypes.c_void_p),
        ("snapshot", ctypes.py_object),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("back", ctypes.c_void_p),
        ("inner", ctypes.POINTER(_Inner)),
    ]


class _Frame310(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("size_back_code", ctypes.c_void_p * 3),
        ("builtins", ctypes.c_void_p),
        ("globals", ctypes.c_void_p),
        ("snapshot", ctypes.py_object),
    ]


def _snapshot_of(frame: FrameType) -> object:
    """The snapshot that the frame already has, unread and unchanged; None when it has none."""
    try:
        # Attribute reads only between the frame and its snapshot: the interpreter switches threads at calls and
        # backward jumps, so another thread's frame cannot end half way through this line.
        if _LAYOUT == "inner":
            view = _Frame.from_address(id(frame))
            return view.inner.contents.snapshot
        if _LAYOUT == "flat":
            return _Frame310.from_address(id(frame)).snapshot
    except ValueError:  # a NULL pointer: no snapshot yet
        pass
    return None


def _layout(frame: FrameType) -> str:
    if sys.implementation.name != "cpython":
        return ""
    expected = (id(frame.f_globals), id(frame.f_builtins))
    if _VERSION in _WORDS_BEFORE_GLOBALS:
        inner = _Frame.from_address(id(frame)).inner.contents
        return "inner" if (inner.globals, inner.builtins) == expected else ""
    if _VERSION == (3, 10):
        flat = _Frame310.from_address(id(frame))
        return "flat" if (flat.globals, flat.builtins) == expected else ""
    return ""


_LAYOUT = _layout(sys._getframe())


def _of_variables() -> type:
    return type(sys._getframe().f_locals)


_VARIABLES: Any = _of_variables()
"""The type of `f_locals` of a function: a dict, and from Python 3.13 on a proxy."""

"""How explanations say things: places, counts, shapes and lists in one style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from backsight.findings import Finding
from backsight.findings.evidence import Certainty, Evidence, Fact
from backsight.source import Place
from backsight.story.failure import Failure
from backsight.tape.rows import dimensions, dtype_name
from backsight.text import counted as counted
from backsight.text import listed as in_words
from backsight.text import numbered as numbered
from backsight.tracing import Line, current, is_watched


def shown(place: Place | Line, says: str, certainty: Certainty | None = None) -> Evidence:
    """Return a statement as evidence: where and what it is, and below it what it does.

    What a watch has noted was seen, unless the caller knows that what it says of it was not.

    >>> print(shown(Place("train.py", 41, "loss.backward()"), "frees the graph."))
    train.py:41  loss.backward()
        frees the graph.
    """
    place = place.place if isinstance(place, Line) else place
    return Evidence(says, place, certainty or ("seen" if place.seen else "held"))


def sure_if(alone: bool) -> Certainty | None:
    """What is known of a statement that must be the one because the program has no other; read, where it has."""
    return None if alone else "read"


def if_known(place: Place | Line | None, says: str, certainty: Certainty | None = None) -> Evidence | None:
    """As `shown`; None where there is no such statement."""
    return shown(place, says, certainty) if place is not None else None


def warning(
    code: str,
    title: str,
    evidence: Iterable[Fact | None],
    fix: str,
    at: Place | Line | None = None,
    *,
    exact: bool = True,
    nodes: tuple[int, ...] = (),
    since: int | None = None,
) -> Finding:
    """Return a warning about the statement `at` a place, if one is known; of the evidence, what there is."""
    known = tuple(each for each in evidence if each is not None)
    return Finding(code, "warning", title, known, fix, str(at) if at is not None else None, exact, nodes, since)


def failing(failure: Failure, says: str) -> tuple[Evidence, ...]:
    """The line that failed, as evidence; nothing where it is not known."""
    return (shown(failure.user.place, says),) if failure.user else ()


def a_kind(name: str) -> str:
    """Return the name of a type with its article; None for that of None.

    >>> a_kind("numpy.ndarray"), a_kind("int"), a_kind("LSTM"), a_kind("NoneType")
    ('a NumPy ndarray', 'an int', 'an LSTM', 'None')
    """
    if name == "NoneType":
        return "None"
    library, _, short = name.rpartition(".")
    short = f"NumPy {short}" if library == "numpy" else short
    spelled = short[:1] in "FHLMNRSX" and short[1:2].isupper()  # an LSTM
    return f"{'an' if spelled or short[:1] in 'aeiouAEIO' else 'a'} {short}"


def unwatched() -> tuple[str, ...]:
    """Say what would see what was only read, where it does not run already."""
    return () if current() else ("Run it with `backsight run` for an exact answer: that sees every optimizer step.",)


def lost(what: str) -> str:
    """Say that something cannot be known anymore, and what would have seen it, where that does not run already."""
    return f"{what} is no longer known{'' if is_watched() else ': `backsight run` would have seen it'}."


def operations_were(number: int) -> str:
    """`1 operation of this graph was`, `2 operations of this graph were`."""
    return f"{counted(number, 'operation')} of this graph {'was' if number == 1 else 'were'}"


def listed(items: Sequence[str], limit: int = 6) -> str:
    """`a, b and c`; what goes beyond `limit` is counted."""
    return in_words(items, limit)


def shaped(shape: Sequence[int] | None) -> str:
    """`3×4`; `scalar` for no dimensions."""
    return dimensions(shape or ())


def tensor_of(shape: Sequence[int] | None) -> str:
    """`a tensor of shape 3×4`, `a scalar tensor`."""
    return f"a tensor of shape {shaped(shape)}" if shape else "a scalar tensor"


def described(tensor: torch.Tensor) -> str:
    """`float32 tensor of shape 3×4`."""
    kind = dtype_name(tensor.dtype)
    if torch.nn.parameter.is_lazy(tensor):
        return f"{kind} parameter without a shape"  # which none of its methods tells before the first forward
    return f"{kind} tensor of shape {shaped(tensor.shape)}" if tensor.dim() else f"{kind} scalar"

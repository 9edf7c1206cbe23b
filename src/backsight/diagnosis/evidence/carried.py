"""How an earlier graph comes into this pass, in words: the same for a graph that is freed and for weights that have
been stepped since."""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident

from backsight.diagnosis.wording import if_known, listed, shown, tensor_of
from backsight.findings.evidence import Certainty, Fact
from backsight.source import Place, assignments, only, read_at
from backsight.story.carrier import Carrier
from backsight.story.holders import results_in
from backsight.story.joints import joint_of
from backsight.story.recomputing import first_backward
from backsight.story.renewing import written_alike
from backsight.tracing import Line


def how(found: Carrier) -> list[Fact]:
    """The statements that store it, and the one that uses it again."""
    tell = {"once": _once, "summed": _summed, "written": _written, "cached": _stored, "kept": _stored}
    return [fact for fact in tell.get(found.kind, _carried)(found) if fact is not None]


def kind_of(found: Carrier) -> str:
    """What is carried: `, a tensor of shape 2×8,`; empty where it is not one tensor."""
    results = results_in(found.value)
    if len(results) == 1:
        return f", {tensor_of(results[0].shape)},"
    alone = found.kind in ("once", "written") and len(found.nodes) == 1
    return f", {tensor_of(found.case.graph.nodes[found.nodes[0]].shape)}," if alone else ""


def certainty_of(found: Carrier) -> Certainty | None:
    """What is read from the text alone, if nobody has seen what is old."""
    held = found.kind in ("once", "kept") and (found.facts is not None or found.function)
    return None if found.sure and (found.case.joints or held) else "read"


def _carried(found: Carrier) -> Iterator[Fact | None]:
    inner, span, certainty = found.inner, found.span, certainty_of(found)
    reads = f"reads {inner} from the previous {span}, still attached to its graph"
    if found.dropped is not None:
        yield shown(found.dropped, f"returns a detached copy, which nothing uses: {inner} stays as it is.")
        assigns = f"assigns {inner}, with the graph that the next {span} reads."
        yield if_known(found.stored, assigns, certainty) if found.stored != found.dropped else None
    elif found.read == found.stored:
        yield if_known(found.read, f"{reads}, and assigns it for the next.", certainty)
    else:
        yield if_known(found.read, f"{reads}.", certainty)
        yield if_known(found.stored, f"assigns it for the next {span}.", certainty)
    body, _ = read_at(found.stored)
    for other in map(found.called, found.names[1:]):
        place = only(assignments(body, other)) if found.dropped is None else None
        yield if_known(place, f"assigns {other} for the next {span}, too.") if place != found.stored else None
    yield if_known(found.waits, f"waits here while the backward runs, and keeps {found.name}.")


def _summed(found: Carrier) -> Iterator[Fact | None]:
    if found.span == "pass":
        yield if_known(found.read, f"runs backward through {found.name}, and frees its graph.")
        yield if_known(found.stored, f"adds to {found.name}, which still holds what that backward went through.")
        return
    keeps = f"keeps {found.name} of the previous iteration, still attached to its graph."
    yield if_known(found.stored, keeps, certainty_of(found))


def _once(found: Carrier) -> Iterator[Fact | None]:
    name, when, read = found.name, found.when, found.read
    others = {each: found.made_of(each) for each in found.names[1:]}
    beside = [each for each, place in others.items() if place == found.stored]
    stored, made = found.stored, found.made.place if isinstance(found.made, Line) else found.made
    if stored is None:
        known = name.split(".")[0] in found.level.variables
        yield f"{found.level.function} receives {name}, already computed." if known else f"{name} was computed before."
    elif made is not None and _line(made) != _line(stored):
        yield shown(made, f"computes it{_elsewhere(found)}.")
        yield shown(stored, f"stores it in {name}, once{f', {when}' if when else ''}.", certainty_of(found))
    else:
        once = "" if when.startswith("only") else "once, "
        every = listed([name, *beside], len(found.names))
        does = f"computes {every} {once}{when}" if when else f"computes {name}{_elsewhere(found)}"
        yield shown(stored, f"{does}.", certainty_of(found))
    for other, place in others.items():
        yield if_known(place, f"computes {other}, too.") if other not in beside else None
    if found.facts is not None:
        use = f"uses it in every iteration of the loop at line {found.facts.loop.line}."
        use = "iterates over it, and never computes it again." if read == found.facts.loop else use
        yield if_known(read, use) if read != found.level.place or found.waits else None
    elif read is not None and (stored is None or _line(read) != _line(stored)):
        yield shown(read, f"uses it in each call of {found.function}()." if found.function else "uses it again.")
    yield if_known(first_backward(found), "already ran backward through it.")


def _elsewhere(found: Carrier) -> str:
    """What a block does not reach, if another thread has made it."""
    joint = joint_of(found.case)
    operation = found.case.watch.operation_of(joint.old) if joint is not None and found.case.watch else None
    if operation is None or operation.thread == get_ident() or joint is None or joint.old.index not in found.nodes:
        return ""
    return ", in another thread: `with torch.no_grad():` around the call that starts it does not reach there"


def _line(place: Place) -> tuple[str, int]:
    return place.file, place.line


def _stored(found: Carrier) -> Iterator[Fact | None]:
    keeping, read = found.keeping, found.read
    if keeping is None:
        yield if_known(found.stored, "adds to it in every iteration, and nothing empties it.")
        yield if_known(read, "uses all of it again.")
        return
    yield if_known(found.stored, f"stores {keeping.value or 'it'}, still attached to its graph.")
    if found.facts is not None:
        yield if_known(read, f"uses it in every iteration, as a part of {found.names[-1]}.")
    elif read is not None and _line(read) != _line(keeping.place):
        yield shown(read, "uses it again.")


def _written(found: Carrier) -> Iterator[Fact | None]:
    name = found.keeping.name if found.keeping else found.name
    yield if_known(found.stored, f"writes into {name} a tensor that is still attached to its graph.")
    for other, place in written_alike(found).items():
        yield shown(place, f"writes into {other}, too.") if other != name else None


def older(found: Carrier) -> list[Fact]:
    """What else is older than the earlier backward, which may have gone through that instead."""
    joint = joint_of(found.case)
    unknown = {i for i in found.case.joints if found.case.is_old(i)} - set(found.nodes)
    if joint is None or found.kind not in ("once", "kept", "cached") or found.facts is not None or not unknown:
        return []
    does = "computed another result that is older than that backward."
    others = [line for line in joint.others if found.stored is None or _line(line.place) != _line(found.stored)]
    lines: list[Fact] = [shown(line, does) for line in others[:2]]
    return [*lines, "(It is unknown which of them that backward went through.)"] if lines else []

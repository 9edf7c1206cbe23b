"""What a backward pass only has because the forward pass differs: no origin of its own, and not told as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backsight.traces.judging import Judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.records import Operation, Trace


def without_inherited(judged: Sequence[Judged], walk: Walk) -> tuple[Judged, ...]:
    """Return the origins without those of the backward pass that come of another forward pass.

    Where an operation of the forward pass is only in one program, so is its backward. Where the forward pass computes
    something else, a backward operation that is given other numbers may well enlarge the difference. Where the forward
    passes agree, if only up to rounding, a backward that does not is a finding.
    """
    if any(each.cls == "precision" and each.origin.kind == "start" for each in judged):
        judged = [each for each in judged if each.cls != "semantics" or not each.origin.before or each.origin.decides]
    forward = [each.origin for each in judged if each.cls == "semantics" and _is_forward(each.origin)]
    if not forward:
        return tuple(judged)
    differing = _differing(forward, walk)
    return tuple(each for each in judged if not _comes_of(each.origin, differing))


def _is_forward(origin: Origin) -> bool:
    return origin.kind in ("operation", "program") and origin.phase in ("forward", "recomputation")


def _differing(forward: Sequence[Origin], walk: Walk) -> tuple[set[int], set[int]]:
    """Return the operations, in A and in B, in which the forward passes differ."""
    a, b, pairs = walk.distances.a, walk.distances.b, walk.pairing
    told_a = [each.number for origin in forward for each in (origin.a, *origin.only_a) if each is not None]
    told_b = [each.number for origin in forward for each in (origin.b, *origin.only_b) if each is not None]
    return {*told_a, *_alone(a, pairs.to_b, walk.step)}, {*told_b, *_alone(b, pairs.to_a, walk.step)}


def _alone(trace: Trace, partners: Mapping[int, int], step: int) -> list[int]:
    """Return the forward operations that the other program does not have."""
    forward = [each for each in trace.operations if each.step == step and each.phase == "forward"]
    return [each.number for each in forward if each.number not in partners]


def _comes_of(origin: Origin, differing: tuple[set[int], set[int]]) -> bool:
    if origin.phase != "backward":
        return False
    if origin.kind == "program":
        sides = (origin.only_a, origin.only_b)
        return all(
            _is_backward_of(each, numbers) for mine, numbers in zip(sides, differing, strict=True) for each in mine
        )
    if origin.kind != "operation" or origin.a is None or origin.b is None:
        return False
    own = _is_backward_of(origin.a, differing[0]) or _is_backward_of(origin.b, differing[1])
    return own or (origin.before > 0 and not origin.decides)


def _is_backward_of(operation: Operation, numbers: set[int]) -> bool:
    """Whether it belongs to one of these forward operations, or to none, as the sum of two gradients of one tensor."""
    return operation.of in numbers or (operation.of == -1 and not operation.place)

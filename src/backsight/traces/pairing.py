"""Which operation of one trace is which of the other: the longest common stretches, by phase, module and operator."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

from backsight.traces.records import Held, Operation, Trace

_LONGEST = 20_000
"""Operations of a step beyond which only those at the beginning are paired."""

VIEWS = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice"),
        *("select", "split", "chunk", "unbind", "flatten", "detach", "alias"),
    )
)
"""Operators that only look at another tensor, in another shape: what they are given is of the shape alone."""


RANDOM = frozenset(
    (
        *("bernoulli", "native_dropout", "dropout", "rand", "randn", "randint", "randperm", "rand_like", "randn_like"),
        *(
            "randint_like",
            "normal",
            "uniform",
            "random",
            "multinomial",
            "exponential",
            "geometric",
            "cauchy",
            "poisson",
        ),
        *("log_normal", "rrelu_with_noise", "_fused_dropout", "feature_dropout", "alpha_dropout", "binomial"),
    )
)
"""Operators that draw from a random generator."""


@dataclass(frozen=True)
class Pairing:
    """The operations of a step of both traces, by number, and the pairs among them.

    to_b, to_a: the partner by number; what has none is only there.
    modules: the modules of B by what they are in A, where these are called otherwise.
    """

    to_b: Mapping[int, int]
    to_a: Mapping[int, int]
    modules: Mapping[str, str]


def paired(a: Sequence[Operation], b: Sequence[Operation], traces: tuple[Trace, Trace]) -> Pairing:
    """Pair the operations of a step."""
    a, b = a[:_LONGEST], b[:_LONGEST]
    modules = _renamed(a, b)
    back = {theirs: ours for ours, theirs in modules.items()}
    tokens = [_token(each, {}) for each in a], [_token(each, back) for each in b]
    pairs: list[tuple[int, int]] = []
    for i, j in _stretches(tokens, (a, b), traces):
        pairs += [(i.start + p, j.start + q) for p, q in _matched(tokens[0][i], tokens[1][j])]
    to_b = {a[i].number: b[j].number for i, j in pairs}
    return Pairing(to_b, {theirs: ours for ours, theirs in to_b.items()}, modules)


def _stretches(
    tokens: Sequence[Sequence[Hashable]],
    operations: tuple[Sequence[Operation], Sequence[Operation]],
    traces: tuple[Trace, Trace],
) -> Iterator[tuple[slice, slice]]:
    """Yield the stretches between results that only one operation of each side has: the same to three digits.

    Steps over time are made of the same operations again and again, and only their numbers tell them apart.
    """
    keys = [
        [(token, *_digits(trace, each)) for token, each in zip(held, mine, strict=True)]
        for held, mine, trace in zip(tokens, operations, traces, strict=True)
    ]
    counts = [Counter(each) for each in keys]
    places = {key: place for place, key in enumerate(keys[1]) if counts[1][key] == 1}
    anchors = [(k, places[key]) for k, key in enumerate(keys[0]) if counts[0][key] == 1 and key in places]
    start = (0, 0)
    for i, j in _rising(anchors):
        yield slice(start[0], i), slice(start[1], j)
        yield slice(i, i + 1), slice(j, j + 1)
        start = i + 1, j + 1
    yield slice(start[0], len(keys[0])), slice(start[1], len(keys[1]))


def _digits(trace: Trace, operation: Operation) -> tuple[Hashable, ...]:
    """Return the results of an operation to three digits; what only looks at another's says nothing."""
    if operation.op == "module" or not operation.outputs:
        return (operation.number, id(trace))
    mark = trace.values[operation.outputs[0]].mark
    if mark < 0:
        return (operation.number, id(trace))
    row = trace.prints[mark]["stats"]
    return int(row["count"]), *(f"{row[name]:.2e}" for name in ("m2", "min", "max"))


def _rising(anchors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest series of anchors that rises on both sides (patience sorting)."""
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for k, (_, place) in enumerate(anchors):
        pile = bisect_left(tops, place)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [k]
        before.append(piles[pile - 1] if pile else -1)
    found: list[tuple[int, int]] = []
    k = piles[-1] if piles else -1
    while k != -1:
        found.append(anchors[k])
        k = before[k]
    return found[::-1]


def plain_name(op: str) -> str:
    """Return an operator's name without what does not change the result: its overload, and whether it is in place."""
    return op.removeprefix("aten.").partition(".")[0].rstrip("_")


_OF_DEVICES = (
    (("_scaled_dot_product_", "_safe_softmax_attention"), "attention"),
    (
        ("cudnn_convolution", "mkldnn_convolution", "miopen_convolution", "_convolution", "convolution_overrideable"),
        "convolution",
    ),
    (
        ("cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_with_update", "_native_batch_norm_legit"),
        "native_batch_norm",
    ),
    (("_cudnn_rnn", "miopen_rnn", "mkldnn_rnn_layer"), "rnn"),
    (("_cudnn_ctc_loss", "_ctc_loss"), "ctc_loss"),
)
"""Operators of one device, by how they begin, and what they compute."""


@cache
def role(op: str) -> str:
    """Return what an operator computes, whatever the device whose kernel has a name of its own."""
    name = plain_name(op)
    for starts, what in _OF_DEVICES:
        if name.startswith(starts):
            return f"{what}_backward" if "backward" in name else what
    return name


def _token(operation: Operation, modules: Mapping[str, str]) -> tuple[Hashable, ...]:
    module = modules.get(operation.module, operation.module)
    return operation.phase, role(operation.op), module, len(operation.outputs) if operation.op == "module" else 0


def _renamed(a: Sequence[Operation], b: Sequence[Operation]) -> dict[str, str]:
    """Return the modules of B by those of A for what has another path there: what was paired without names says so."""
    ours, theirs = {each.module for each in a}, {each.module for each in b}
    if ours == theirs:
        return {}
    pairs = _matched([_nameless(each) for each in a], [_nameless(each) for each in b])
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for i, j in pairs:
        votes[a[i].module][b[j].module] += 1
    found: dict[str, str] = {}
    taken: set[str] = ours & theirs
    for module, counted in sorted(votes.items(), key=lambda each: -each[1].most_common(1)[0][1]):
        best = next((name for name, _ in counted.most_common() if name not in taken), None)
        if module not in theirs and best is not None:
            found[module] = best
            taken.add(best)
    return found


def _nameless(operation: Operation) -> tuple[Hashable, ...]:
    return operation.phase, role(operation.op), len(operation.inputs)


def _matched(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places that belong together: what is common at both ends first, then the longest stretches."""
    start, most = 0, min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    pairs = [(k, k) for k in range(start)]
    middle = SequenceMatcher(None, a[start : len(a) - end], b[start : len(b) - end], autojunk=False)
    for i, j, length in middle.get_matching_blocks():
        pairs += [(start + i + k, start + j + k) for k in range(length)]
    return pairs + [(len(a) - end + k, len(b) - end + k) for k in range(end)]


def paired_names(a: Trace, b: Trace, step: int) -> dict[str, str]:
    """Return the parameters and buffers of B by what they are called in A: by name, else by value, else by what
    does not depend on the order of elements, else by shape.

    What no module owns is held from the first step of its optimizer on: its gradient and its end tell what it is.
    """
    ours, theirs = _named(a, step), _named(b, step)
    found = {name: name for name in ours if name in theirs and _shape(a, ours[name]) == _shape(b, theirs[name])}
    left = [name for name in theirs if name not in found]
    moments = [(_held(a, step, *when), _held(b, step, *when)) for when in _MOMENTS]
    passes = [(alike, *moment) for moment in moments for alike in (_hash, _numbers)]
    for alike, mine, others in [*passes, (_shape, ours, theirs)]:
        for name in [each for each in ours if each not in found and each in mine]:
            key = alike(a, mine[name])
            match = next((each for each in left if each in others and alike(b, others[each]) == key), None)
            if match is not None:
                found[name] = match
                left.remove(match)
    return found


_MOMENTS = (("start", ("weight", "buffer")), ("end", ("grad",)), ("end", ("weight", "buffer")))


def _held(trace: Trace, step: int, at: str, kinds: tuple[str, ...]) -> dict[str, Held]:
    return {each.name: each for each in trace.held if (each.step, each.at) == (step, at) and each.kind in kinds}


def _named(trace: Trace, step: int) -> dict[str, Held]:
    kinds = ("weight", "buffer")
    found = {each.name: each for each in reversed(trace.held) if each.step == step and each.kind in kinds}
    left = replaced(trace, step, found)
    return {name: held for name, held in found.items() if name not in left}


def weights_of(trace: Trace, step: int) -> set[str]:
    """Return the names of the parameters and buffers that are held in a step."""
    return {each.name for each in trace.held if each.step == step and each.kind in ("weight", "buffer")}


def replaced(trace: Trace, step: int, names: Iterable[str]) -> set[str]:
    """Return the parameters and buffers of a model in whose place the step uses another one, as one that was resumed.

    The second model of a program has its class before its names.
    """
    held = {each.value: each.name for each in trace.held if each.step == step and each.kind in ("weight", "buffer")}
    taken_by: dict[bool, set[str]] = {True: set(), False: set()}
    for each in (one for one in trace.operations if one.step == step):
        found = (held.get(number) for number in each.inputs)
        taken_by[each.phase == "optimizer"].update(name for name in found if name is not None)
    used = taken_by[True] or taken_by[False]  # what is saved is read, too
    known = set(names)
    models = {each.partition(".")[0] for each in known if each.partition(".")[2] in known}
    roots = {each: _rooted(each, models) for each in known}
    active = {roots[each][0] for each in used & known}
    taken = {rest: root for root, rest in roots.values() if root in active}  # and what no optimizer holds, as buffers
    idle = {root for root, _ in roots.values()} - active
    return {each for each, (root, rest) in roots.items() if root in idle and taken.get(rest, root) != root}


def _rooted(name: str, models: set[str]) -> tuple[str, str]:
    """Return the model, of those that are called by their class, and the name within it."""
    model, _, rest = name.partition(".")
    return (model, rest) if model in models and rest else ("", name)


def _shape(trace: Trace, held: Held) -> object:
    return held.kind, trace.values[held.value].shape


def _numbers(trace: Trace, held: Held) -> object:
    value = trace.values[held.value]
    if value.mark < 0:
        return held.kind, value.shape, held.name
    row = trace.prints[value.mark]["stats"]
    return held.kind, value.shape, *(f"{row[name]:.5e}" for name in ("m2", "mean", "min", "max"))


def _hash(trace: Trace, held: Held) -> object:
    value = trace.values[held.value]
    return held.kind, value.shape, int(trace.prints[value.mark]["hash"]) if value.mark >= 0 else -1

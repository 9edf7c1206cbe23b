"""The forward pass of a step as a graph that can be drawn: how far apart results are, and where that begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backsight.tape import BadDocument, graph_of
from backsight.tape.queries import Place
from backsight.traces.growth import losses_of
from backsight.traces.judging import Judged
from backsight.traces.origins import Walk
from backsight.traces.pairing import plain_name
from backsight.traces.records import Operation, Phase, Trace, Value, Variables

UNFOLDED = 64
"""Up to so many boxes, repetitions are drawn one by one: a difference begins in one of them."""

FEW = 8
"""Boxes of a picture beside those of the module in which it begins, which is open."""

MOST = 20_000
"""Operations of a step of which a picture is made."""

_NONE = -1


@dataclass(frozen=True)
class Picture:
    """A step of A, as plain data.

    graph: as a document of `backsight.tape`; `forward`, `backward`: how far apart results and gradients are, by node.
    first: the phase and node at which the trainings diverge, and the module of that.
    """

    graph: Mapping[str, Any]
    forward: Mapping[int, float]
    backward: Mapping[int, float]
    first: tuple[Phase, int, str] | None

    @property
    def backwards(self) -> bool:
        """Whether it begins in the backward pass, so that gradients are what to look at."""
        return self.first is not None and self.first[0] == "backward"

    def svg(self, remark: str) -> str:
        """Return it as SVG for a page that has the style of drawings; "" if it cannot be drawn."""
        from backsight.drawing import Drawing, Heat, Look, Pin
        from backsight.drawing import svg as drawn

        heat = self.backward if self.backwards else self.forward
        try:
            graph = graph_of(dict(self.graph))
        except BadDocument:  # of a trace that was written by something else
            return ""
        pins = () if self.first is None else (Pin(graph.nodes[self.first[1]], remark),)
        what = "difference of gradients" if self.backwards else "difference of results"
        values: dict[Place, float] = {graph.nodes[node]: value for node, value in heat.items()}
        look = Look("forward pass of A", pins=pins, heat=Heat(f"relative {what}", values), fold=False)
        if self.first is not None:
            look = replace(look, open=_around(self.first[2]), max_boxes=FEW)
        drawing = Drawing(graph, look)
        if sum(1 for _ in drawing.scene.shown) > UNFOLDED or any(box.kind == "part" for box in drawing.scene.boxes):
            drawing = Drawing(graph, replace(look, fold=True))
        return drawn(drawing.scene, drawing.tell, theme=None)


def _around(module: str) -> list[str]:
    """Return the paths of a module and of those around it."""
    parts = module.split(".") if module else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def pictured(walk: Walk, origins: Sequence[Judged]) -> Picture | None:
    """Return the picture of a step; None if it has no forward pass, or one that is too long for a picture."""
    trace = walk.distances.a
    step = [each for each in trace.operations if each.step == walk.step]
    if not any(each.phase == "forward" for each in step) or len(step) > MOST:
        return None
    called = _called(trace.called)
    step = [replace(each, module=called(each.module)) for each in step]
    others = {each.number: each for each in walk.distances.b.operations if each.step == walk.step}
    apart = {each.number: _apart(walk, each, others.get(walk.pairing.to_b.get(each.number, -1))) for each in step}
    shown = _shown(trace, step, apart)
    if not shown:
        return None
    nodes = {each.number: len(shown) - 1 - k for k, each in enumerate(shown)}  # those that consume stand first
    forward = {nodes[each.number]: apart[each.number] for each in shown if apart[each.number]}
    backward: dict[int, float] = {}
    for each in step:
        if each.phase == "backward" and each.of in nodes and apart[each.number]:
            backward[nodes[each.of]] = max(backward.get(nodes[each.of], 0.0), apart[each.number])
    return Picture(_document(trace, shown, nodes, _calls(step)), forward, backward, _first(origins, nodes, called))


def _called(called: Variables) -> Callable[[str], str]:
    """Return how modules are called in a picture: as `graph` does, a single model's without its variable."""
    several = any(path not in ("", variable) for path, variable in called.by_path.items())
    return lambda path: called(path) if several and path else path


def _apart(walk: Walk, ours: Operation, theirs: Operation | None) -> float:
    """Return how far apart the results of an operation are; 0 where the other program has none like it."""
    if theirs is None:
        return 0.0
    pairs = zip(ours.outputs, theirs.outputs, strict=False)
    return max((walk.distances(x, y).relative for x, y in pairs), default=0.0)


def _shown(trace: Trace, step: Sequence[Operation], apart: Mapping[int, float]) -> list[Operation]:
    """Return the operations between weights and losses, as autograd has them, and whatever else differs."""
    forward = [each for each in step if each.phase == "forward" and each.op != "module"]
    trained = {each.number for each in forward if any(_is_weight(trace.values[i]) for i in each.inputs)}
    for each in forward:
        if any(trace.values[i].maker in trained for i in each.inputs):
            trained.add(each.number)
    wanted = {trace.values[loss].maker for loss in losses_of(trace, step[0].step)}
    wanted = wanted or {each.number for each in forward[-1:]}
    for each in reversed(forward):
        if each.number in wanted:
            wanted.update(trace.values[i].maker for i in each.inputs)
    return [each for each in forward if each.number in wanted and (each.number in trained or apart[each.number])]


def _is_weight(value: Value) -> bool:
    return value.name.startswith("weight ")


def _first(
    origins: Iterable[Judged], nodes: Mapping[int, int], called: Callable[[str], str]
) -> tuple[Phase, int, str] | None:
    """Return where it begins, of the gravest class, as far as the picture shows the operation."""
    ranked = sorted(origins, key=lambda each: ("semantics", "precision", "noise").index(each.cls))
    for judged in ranked:
        origin = judged.origin
        for each in filter(None, (*origin.only_a[:1], origin.a)):
            number = each.of if each.phase == "backward" else each.number
            if each.phase in ("forward", "backward") and number in nodes:
                return each.phase, nodes[number], called(each.module)
    return None


def _calls(step: Iterable[Operation]) -> dict[int, tuple[tuple[str, int], ...]]:
    """Return, of each forward operation, the modules around it and which call of each that was."""
    ended: Counter[str] = Counter()
    found = {}
    for each in step:
        if each.phase == "forward" and each.op == "module":
            ended[each.module] += 1
        elif each.phase == "forward":
            found[each.number] = tuple((path, ended[path]) for path in _around(each.module))
    return found


def _document(
    trace: Trace,
    shown: Sequence[Operation],
    nodes: Mapping[int, int],
    calls: Mapping[int, tuple[tuple[str, int], ...]],
) -> dict[str, Any]:
    """Return what is shown as a graph in backward order, then the weights."""
    backwards = shown[::-1]
    weights, inputs = _inputs(trace, backwards, nodes)
    names = _numbered(map(_node_name, backwards))
    modules = _numbered(each.module for each in backwards)
    lines = _numbered(_line(each) for each in backwards if each.place)
    consumed = {node for ends in inputs for node in ends}
    roots = [k for k in range(len(backwards)) if k not in consumed]
    ends = [node for each in inputs for node in each]
    none = [_NONE] * len(weights)
    around = {each: k for k, each in enumerate(dict.fromkeys((*(calls[each.number] for each in backwards), ())))}
    return {
        "version": 1,
        "types": [*([name, "op", None] for name in names), ["AccumulateGrad", "leaf", None]],
        "type": [*(names[_node_name(each)] for each in backwards), *[len(names)] * len(weights)],
        "inputs_of": [*map(len, inputs), *[0] * len(weights)],
        "inputs": ends,
        "input_outputs": [0] * len(ends),
        "sequence": [*(len(backwards) - 1 - k for k in range(len(backwards))), *none],
        "roots": [[k, 0, "loss" if len(roots) == 1 else ""] for k in roots],
        "leaves": [_leaf(node, value, ends.count(node), trace.called) for node, value in weights],
        "made": [*range(len(backwards)), *[len(backwards)] * len(weights)],
        "outputs": [*([_output(trace.values[i]) for i in each.outputs] for each in backwards), []],
        "saved": [],
        "module": [*(modules[each.module] for each in backwards), *none],
        "modules": [*modules],
        "call": [*(dict(calls[each.number]).get(each.module, 0) for each in backwards), *[0] * len(weights)],
        "around": [*(around[calls[each.number]] for each in backwards), *[around[()]] * len(weights)],
        "calls": [[list(pair) for pair in each] for each in around],
        "line": [*(lines[_line(each)] if each.place else _NONE for each in backwards), *none],
        "lines": [*lines],
    }


def _numbered(words: Iterable[str]) -> dict[str, int]:
    return {word: k for k, word in enumerate(dict.fromkeys(words))}


def _inputs(
    trace: Trace, backwards: Sequence[Operation], nodes: Mapping[int, int]
) -> tuple[list[tuple[int, Value]], list[list[int]]]:
    """Return the weights with their nodes, and the nodes that each operation consumes."""
    weights: dict[str, tuple[int, Value]] = {}
    inputs: list[list[int]] = []
    for each in backwards:
        ends = []
        for value in (trace.values[i] for i in each.inputs):
            if _is_weight(value):
                ends.append(weights.setdefault(value.name, (len(backwards) + len(weights), value))[0])
            elif nodes.get(value.maker, _NONE) > nodes[each.number]:
                ends.append(nodes[value.maker])
        inputs.append(ends)
    return [*weights.values()], inputs


def _node_name(operation: Operation) -> str:
    """Return what autograd calls the node of an operator: `NativeLayerNormBackward0` for `aten.native_layer_norm`."""
    words = plain_name(operation.op).strip("_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"


def _line(operation: Operation) -> str:
    return f"{operation.place.file}:{operation.place.line}"


def _output(value: Value) -> list[Any]:
    return [list(value.shape), value.dtype, value.device]


def _leaf(node: int, value: Value, uses: int, called: Variables) -> dict[str, Any]:
    path = value.name.removeprefix("weight ")
    name = called(path)
    return {
        "node": node,
        "shape": list(value.shape),
        "dtype": value.dtype,
        "device": value.device,
        "kind": "parameter",
        "name": name,
        "names": [name],
        "owner": None,
        "module": _called(called)(path.rpartition(".")[0]),
        "near": "",
        "uses": uses,
        "storage": None,
    }

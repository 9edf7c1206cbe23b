"""What a watch saw cut a gradient off: where, why, and what takes it back."""

from __future__ import annotations

import ast

from backsight.diagnosis.evidence.reentrant import CHECKPOINTS
from backsight.diagnosis.program import loops_around
from backsight.source import Body, Place, calls_of, parsed, read_at, statement_at
from backsight.source.bindings import assigned, bound, targets
from backsight.source.body import (
    callee,
    calls_in,
    covers,
    dotted,
    expressions,
    functions,
    given_to,
    is_shared,
    statements,
)
from backsight.source.cut_rules import rule_of
from backsight.source.definitions import values_of
from backsight.source.edits import write
from backsight.source.out_of_place import in_place
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, as_seen
from backsight.story.modes import disabled_by
from backsight.tracing import Severed

_WHY = {
    "detach": "detach returns a tensor that is detached from the graph",
    "data": ".data has no gradient",
    "no_grad": "it runs with gradients disabled",
    "inference": "it runs in inference mode",
    "integer": "it returns integers or booleans, which have no gradient",
    "not differentiable": "it is not differentiable",
    "derivative": "without create_graph=True, its result has no graph",
    "item": "a Python number has no gradient",
    "numpy": "a NumPy array has no gradient",
    "rewrapped": "it creates a new tensor from the values alone",
    "frozen": "none of its inputs requires grad",
}

DRAWS = frozenset({"normal"})
"""What `sample()` calls that `rsample()` computes with a gradient: discrete distributions draw otherwise."""


def ends(cut: Severed) -> str:
    """Say that a gradient ends at a cut, and why."""
    if resampled(cut):
        return "draws with sample(), which runs with gradients disabled."
    return f"ends the gradient at {cut.op.lstrip('.')}: {_WHY[cut.by]}."


def resampled(cut: Severed) -> str:
    """Return a statement that draws with `sample()` as it is with `rsample()`; empty for what has no `rsample()`."""
    if cut.by != "no_grad" or cut.op not in DRAWS or cut.line is None or any(True for _ in disabled_by(cut)):
        return ""
    drawn = any(callee(n)[1] == "sample" for n in calls_in(statement_of(cut)))
    return cut.line.place.text.replace(".sample(", ".rsample(", 1) if drawn else ""


def where(cut: Severed) -> Place | None:
    """Return the statement to look at: of what runs with gradients disabled, the one that disables them."""
    if cut.line is None:
        return None
    off, checkpoint = next(disabled_by(cut), None), _checkpoint(cut)
    return off.place if off is not None else checkpoint or cut.line.place


def _checkpoint(cut: Severed) -> Place | None:
    """Return the statement that runs a function under a checkpoint, if a cut without gradients was made in there."""
    for line in (cut.line, *cut.callers) if cut.by == "no_grad" else ():
        statement = read_at(line.place if line is not None else None)[1]
        if line is not None and any(callee(call)[1] in CHECKPOINTS for call in calls_in(statement)):
            return line.place
    return None


def undoing(cut: Severed) -> str:
    """Say what takes a cut back."""
    if cut.by in ("detach", "data") and (kept := _stored_by_hook(cut)):
        return f"Store it without detach() ({kept}{_instead(cut, kept)}), and detach only what serves as a target"
    if cut.by in ("detach", "data") and _stores(cut):
        return "Recompute it in each step instead of using the stored, detached result"
    off = next(disabled_by(cut), None)
    if again := resampled(cut):
        return f"Draw with rsample(): {again}{_instead(cut, again)}"
    if off is None and (checkpoint := _checkpoint(cut)) is not None:
        edit = _not_reentrant(checkpoint)
        return (
            f"Pass use_reentrant=False to this checkpoint{edit}: a reentrant one computes no gradient for frozen inputs"
        )
    if (whole := detached_whole(cut)) is not None:
        return f"Detach the difference alone: {whole[1]}{_rewritten(cut, *whole)}"
    if (estimator := straight_through(cut)) is not None:
        text, trained, passed = estimator
        return f"Use {trained} itself in a loss term, not {text}, which passes the gradient to {passed} alone"
    if cut.by == "detach" and (state := _state(cut)) is not None:
        old, new = f"{state}.state_dict()", f"dict({state}.named_parameters())"
        return f"Take {new} in place of {old}{_rewritten(cut, old, new)}"
    return taken_back(as_seen(cut, cut.line)) if cut.line is not None else f"Compute it without {cut.op}"


def _instead(cut: Severed, new: str) -> str:
    """The edit that writes another statement where a cut is, if nothing else stands on its line."""
    place = cut.line.place if cut.line is not None else None
    body, _ = read_at(place)
    return str(write(place, new)) if place is not None and not is_shared(body, place.line) else ""


def _rewritten(cut: Severed, old: str, new: str) -> str:
    """The edit that writes another expression in the statement of a cut."""
    body, statement = read_at(cut.line.place if cut.line is not None else None)
    node = next((each for each in expressions(statement) if ast.unparse(each) == old), None)
    if body is None or statement is None or node is None:
        return ""
    return str(write(body.place(statement), rewritten(body, statement, {node: new})))


def _not_reentrant(checkpoint: Place) -> str:
    """The edit that has a checkpoint not run inside of backward."""
    body, statement = read_at(checkpoint)
    call = next((each for each in calls_in(statement) if callee(each)[1] in CHECKPOINTS), None)
    new = with_flag(body, statement, call, "use_reentrant", "False") if call is not None else ""
    return str(write(checkpoint, new)) if call is not None else ""


def taken_back(cut: CutOff, *further: CutOff) -> str:
    """Say what takes a cut back, and others on the same way: of a choice by the greatest of some values, what trains in
    its place."""
    choice = cut.cut.kind in ("index", "integer", "comparison", "rounding")
    better = hardened(cut.section.body, cut.cut.expression, cut.cut.place.line) if choice else None
    return better or mended(cut, *further).edit


def measures_accuracy(cut: Severed) -> bool:
    """Whether what was cut off is an index that the function compares with targets."""
    if cut.line is None or cut.by not in ("integer", "not differentiable"):
        return False
    body, _ = read_at(cut.line.place)
    return body is not None and is_accuracy(body, cut.line.segment, cut.line.line)


def _state(cut: Severed) -> str | None:
    """Return the model whose state a statement takes: `state_dict()` detaches what it returns."""
    segment = parsed(cut.line.segment) if cut.line is not None else None
    if isinstance(segment, ast.Call) and callee(segment)[1] == "state_dict":
        return dotted(callee(segment)[0])
    return None


def statement_of(cut: Severed) -> ast.stmt | None:
    place = cut.line.place if cut.line is not None else None
    return read_at(place)[1]


def straight_through(cut: Severed) -> tuple[str, str, str] | None:
    """Return the estimator that a statement cuts a gradient for, `z + (q - z).detach()`, and its `q` and `z`."""
    statement = statement_of(cut) if cut.by in ("detach", "data") else None
    for node in expressions(statement) if statement is not None else ():
        match node:
            case ast.BinOp(op=ast.Add(), left=one, right=other):
                for kept, detached in ((one, other), (other, one)):
                    match detached:
                        case (
                            ast.Call(func=ast.Attribute(value=ast.BinOp(left=q, op=ast.Sub(), right=z), attr="detach"))
                            | ast.Attribute(value=ast.BinOp(left=q, op=ast.Sub(), right=z), attr="data")
                        ) if ast.dump(z) == ast.dump(kept):
                            return ast.unparse(node), ast.unparse(q), ast.unparse(z)
    return None


def detached_whole(cut: Severed) -> tuple[str, str] | None:
    """Return the estimator that a statement detaches as a whole, `(z + (q - z)).detach()`, and what is meant by it."""
    whole = parsed(cut.line.segment) if cut.by == "detach" and cut.line is not None else None
    for node in [whole] if whole is not None else expressions(statement_of(cut)):
        match node:
            case (
                ast.Call(
                    func=ast.Attribute(
                        value=ast.BinOp(left=z, op=ast.Add(), right=ast.BinOp(left=q, op=ast.Sub(), right=again)),
                        attr="detach",
                    )
                )
                | ast.Call(
                    func=ast.Attribute(
                        value=ast.BinOp(left=ast.BinOp(left=q, op=ast.Sub(), right=again), op=ast.Add(), right=z),
                        attr="detach",
                    )
                )
            ) if ast.dump(z) == ast.dump(again):
                return ast.unparse(node), f"{ast.unparse(z)} + ({ast.unparse(q)} - {ast.unparse(z)}).detach()"
    return None


def replaced_leaf(cut: Severed) -> tuple[str, str] | None:
    """Return a variable that the statement of a cut gives a new tensor made of its own values, and the same in place.

    `x = x.detach().clamp(0, 1).requires_grad_(True)` as `x.clamp_(0, 1)`.
    """
    body, statement = read_at(cut.line.place if cut.line is not None else None)
    name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    if body is None or name is None or not isinstance(statement, ast.Assign) or isinstance(statement.value, _SEVERAL):
        return None
    change = in_place(body, name, statement.lineno)
    return (name, change) if change else None


_SEVERAL = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)


def _stored_by_hook(cut: Severed) -> str:
    """How a hook, which runs in each forward, keeps what it stores attached; empty where no hook stores it."""
    place = cut.line.place if cut.line is not None else None
    if place is None or not _stores(cut):
        return ""
    nodes = (each.node for each in functions(place.file))
    around = {each.name for each in nodes if isinstance(each, ast.FunctionDef) and covers(each, place.line)}
    registers = (call for _, _, call in calls_of(place.file) if _is_hook(call))
    named = {(dotted(n) or "").split(".")[-1] for c in registers for each in c.args for n in ast.walk(each)}
    return place.text.replace(".detach()", "").replace(".data", "") if around & named else ""


def _is_hook(call: ast.Call) -> bool:
    return callee(call)[1] in ("register_forward_hook", "register_forward_pre_hook")


def _stores(cut: Severed) -> bool:
    """Whether the statement of a cut puts the result into a container, or an attribute, that outlives the step."""
    statement = statement_of(cut)
    return any(isinstance(target, ast.Subscript | ast.Attribute) for target, _, _ in targets(statement))


_SOFT = frozenset({"softmax", "sigmoid", "gumbel_softmax", "Softmax", "exp"})
_SPREADS = frozenset({"one_hot", "scatter", "scatter_"})
"""What spreads indices over as many places again as they were chosen from."""


def hardened(body: Body, expression: str, line: int) -> str | None:
    """Say what trains where a function chooses by the greatest of some values, `one_hot(probs.argmax(-1))`."""
    if is_accuracy(body, expression, line):
        return "Use a loss that has a gradient, such as cross_entropy, in place of the accuracy"
    stack = [parsed(expression)]
    for node in stack:  # grows as we go
        if isinstance(node, ast.Name):
            stack += [each for each in values_of(body, node.id, line) if each not in stack]
        elif isinstance(node, ast.Call) and callee(node)[1] == "argmax":
            name = dotted(next(iter(given_to(node)), None))
            if name is None:
                return None
            made = (callee(c)[1] for v in values_of(body, name, line) for c in ast.walk(v) if isinstance(c, ast.Call))
            soft = name if any(each in _SOFT for each in made) else f"{name}.softmax(-1)"
            if not (hard := _spread(body, line)):
                return f"Use {soft} itself"
            return (
                f"Use {soft} itself, or {hard} + {soft} - {soft}.detach() to keep the choice and pass on its gradient"
            )
        elif isinstance(node, ast.Call):
            stack += [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return None


def is_accuracy(body: Body, expression: str, line: int) -> bool:
    """Whether an expression chooses indices, `probs.argmax(1)`, that the function compares with others by == or !=."""
    chosen = parsed(expression)
    inside = [each for each in ast.walk(chosen) if isinstance(each, ast.expr)] if chosen is not None else []
    if not any((rule := rule_of(each)) is not None and rule.kind == "index" for each in inside):
        return False
    wanted = {ast.dump(each) for each in inside if (rule := rule_of(each)) is not None and rule.kind == "index"}
    name = _assigned(body, line)
    statement = statement_at(body, line)
    if isinstance(statement, ast.Assign) and any(ast.dump(each) in wanted for each in _through(statement.value)):
        wanted |= {ast.dump(ast.parse(name, mode="eval").body)} if name else set()
    operands = (each for s in statements(body.node) for node in expressions(s) for each in _compared(node))
    return any(ast.dump(inner) in wanted for each in operands for inner in _through(each))


def _through(node: ast.expr) -> list[ast.expr]:
    """An expression, and what it is another dtype or shape of, innermost last: `best` of `best.float().view(-1)`."""
    found = [node]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
        found.append(node := node.func.value)
    return found


_KEEPING = frozenset(
    ("float", "long", "int", "to", "cpu", "cuda", "view", "reshape", "squeeze", "unsqueeze", "flatten", "detach")
)


def _compared(node: ast.expr) -> list[ast.expr]:
    """The operands of a comparison by == or !=; none of any other expression."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=value, attr="eq" | "ne"), args=[*given]):
            return [value, *given]
    return []


def _spread(body: Body, line: int) -> str:
    """The variable that gets a choice spread out again, of the shape of what it was chosen from; else empty."""
    statement = statement_at(body, line)
    value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
    kept = _through(value)[-1] if value is not None else None
    spreads = isinstance(kept, ast.Call) and callee(kept)[1] in _SPREADS
    return (_assigned(body, line) or "hard") if spreads else ""


def _assigned(body: Body, line: int) -> str:
    """Return the variable that a statement gives its value."""
    statement = statement_at(body, line)
    return next((name for target, _ in assigned(statement) if (name := dotted(target))), "")


def restarted(place: Place | None) -> tuple[str, str] | None:
    """Return what a statement in a loop detaches and what of: `part` of `out`, if out was computed before the loop.

    It then requires grad, the loop runs backward for each, and nothing hands on to `out` the gradient that it gets.
    """
    body, statement = read_at(place)
    loop = next(reversed(loops_around(body, statement.lineno)), None) if statement is not None else None
    goal, source = next(assigned(statement), (None, None))
    name, ways = dotted(goal) or "", set[str]()
    while source is not None and not isinstance(source, ast.Name):
        inner = source.func if isinstance(source, ast.Call) else source
        ways.add(inner.attr if isinstance(inner, ast.Attribute) else "")
        source = inner.value if isinstance(inner, ast.Attribute | ast.Subscript) else None
    of = dotted(source)
    if of is None or loop is None or not name.isidentifier() or not ways & {"data", "detach"}:
        return None
    turns = [each for each in statements(body) if loop.lineno < each.lineno <= (loop.end_lineno or 0)]
    inside = [(dotted(callee(call)[0]), callee(call)[1]) for each in turns for call in calls_in(each)]
    every = (callee(call) for each in statements(body) for call in calls_in(each))
    handed = any(method == "backward" and dotted(on) in (of, "torch.autograd", "autograd") for on, method in every)
    begins = "requires_grad_" in ways or (name, "requires_grad_") in inside
    backward = any(method == "backward" for _, method in inside)
    computed_before = not any(of in bound(each) for each in (loop, *turns))
    return (name, of) if begins and backward and computed_before and not handed else None

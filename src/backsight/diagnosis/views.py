"""BS160, BS163: one view of the data stands for two, or a loss asks two outputs to be alike and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from types import CodeType
from typing import NamedTuple

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import line_of, operation_of
from backsight.diagnosis.wording import if_known, numbered, shown, warning
from backsight.source import Body, Place, function_at, only, parsed, statement_at
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.rewriting import rewritten, simple
from backsight.story.holders import below, given
from backsight.tape import Graph, Node
from backsight.tracing import Change

_Where = tuple[CodeType, int, int]


class _Result(NamedTuple):
    """A variable that a statement gives the result of a call."""

    name: str
    call: ast.Call
    statement: ast.stmt


class _Twice(NamedTuple):
    """A statement that reads one variable twice, where another one could be meant, and what it would be then."""

    place: Place
    instead: str


def unused_view(used: _Where, unused: _Where, since: int) -> Finding | None:
    """Return the finding that one of two results never matters, and a statement reads the other one twice."""
    body = function_at(used[0])
    one, other = (_result(body, each) for each in (used, unused))
    if body is None or used[0] is not unused[0] or one is None or other is None or one.name == other.name:
        return None
    found = _twice(body, one.name, other.name)
    handed = None
    if found is None and not _is_read(body.node, other.name, but=other.statement, without_calls=True):
        found, handed = _in_a_function(body, one.name, other.name)
    if found is None or (handed is None and _is_read(body.node, other.name, but=other.statement)):
        return None
    return warning(
        "BS160",
        f"{other.name} is computed in each step, but never used: {one.name} is used twice.",
        (
            shown(body.place(other.statement), f"computes {other.name}, which gets no gradient."),
            if_known(handed, "passes both."),
            shown(found.place, "reads one of them twice."),
        ),
        f"Use the other one as well: {found.instead}{written(found.place, found.instead)}."
        if found.instead
        else f"Use {other.name} as well.",
        found.place,
        since=since,
    )


def same_view(one: _Where, other: _Where, writes: Sequence[Change], since: int) -> Finding | None:
    """Return the finding that two views are one tensor: the program writes into it, and gives it two names."""
    body, second = function_at(one[0]), function_at(other[0])
    calls = [_call(b, where) for b, where in ((body, one), (second, other))]
    names = [dotted(each[0].args[0]) if each is not None and each[0].args else None for each in calls]
    lines = list(dict.fromkeys(each.line.place for each in writes if each.line is not None))
    if body is None or None in names or names[0] == names[1] or not lines:
        return None
    made = [_made(body, name or "", one[1]) for name in names]
    sources = {ast.unparse(each[1].args[0]) for each in made if each is not None and each[1].args}
    if None in made or len(sources) != 1:
        return None
    source, texts, edits = next(iter(sources)), list[str](), dict[str, str]()
    for each in made:
        if each is not None:
            statement, call = each
            texts.append(rewritten(body, statement, {call.args[0]: f"{source}.clone()"}))
            edits[texts[-1]] = written(body.place(statement), texts[-1])
    place = body.place(made[1][0])  # type: ignore[index]  # there is one
    return warning(
        "BS160",
        f"{names[0]} and {names[1]} are the same tensor: both views are {source}, modified in place.",
        (
            shown(body.place(made[0][0]), f"returns {source} itself."),  # type: ignore[index]
            shown(place, "returns it again, and changes the first view with it."),
            *(shown(line, "modifies it in place.") for line in lines[:2]),
            "So the model returns the same for both, and learns nothing from comparing them.",
        ),
        f"Give each a copy: {'; '.join(edits)}{''.join(edits.values()) if all(edits.values()) else ''}."
        if all(texts)
        else f"Give each a copy: {source}.clone().",
        place,
        since=since,
    )


def same_values(one: _Where, other: _Where, since: int) -> Finding | None:
    """Return the finding that a loop gives a model two views of a batch that have the same values."""
    body = function_at(one[0])
    calls = [_call(body, where) for where in (one, other)]
    names = [dotted(each[0].args[0]) if each is not None and each[0].args else None for each in calls]
    if body is None or one[0] is not other[0] or None in names or names[0] == names[1]:
        return None
    loops = [
        each
        for each in statements(body.node)
        if isinstance(each, ast.For) and set(names) <= {n.id for n in ast.walk(each.target) if isinstance(n, ast.Name)}
    ]
    if len(loops) != 1 or calls[1] is None:
        return None
    place, used = body.place(loops[0]), body.place(calls[1][1])
    return warning(
        "BS160",
        f"{names[0]} and {names[1]} have the same values: the data returns one view twice.",
        (
            shown(place, f"takes both from {ast.unparse(loops[0].iter)}."),
            shown(used, "gives the model both, and gets the same result twice."),
            "So the model learns nothing from comparing them.",
        ),
        "Draw the augmentation anew for each view: keep no augmented sample, and no generator that is seeded again.",
        place,
        since=since,
    )


def _call(body: Body | None, where: _Where) -> tuple[ast.Call, ast.stmt] | None:
    """Return the call at a place: the only one there, or the one at its column."""
    _, line, column = where
    statement = statement_at(body, line, column if column >= 0 else None) if body is not None else None
    calls = list(calls_in(statement))
    found = [each for each in calls if (each.lineno, each.col_offset) == (line, column)] or calls
    chosen = min(found, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0), default=None)
    known = chosen is not None and (column >= 0 or len(calls) == 1)
    return (chosen, statement) if known and chosen is not None and statement is not None else None


def _result(body: Body | None, where: _Where) -> _Result | None:
    found = _call(body, where)
    if found is None or not isinstance(found[1], ast.Assign) or len(found[1].targets) != 1:
        return None
    call, statement = found[0], found[1]
    target, value = found[1].targets[0], found[1].value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    for goal, made in pairs:
        if isinstance(goal, ast.Name) and call in ast.walk(made):
            return _Result(goal.id, call, statement)
    return None


def _reads(node: ast.AST, name: str) -> list[ast.Name]:
    return [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
    ]


def _is_read(scope: ast.AST, name: str, but: ast.stmt | None, *, without_calls: bool = False) -> bool:
    """Whether a function reads a variable; `without_calls`: beside what it hands on to another function."""
    skipped = set(map(id, ast.walk(but))) if but is not None else set()
    handed = {
        id(given)
        for call in ast.walk(scope)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and without_calls
        for given in call.args
    }
    return any(id(each) not in skipped and id(each) not in handed for each in _reads(scope, name))


def _twice(body: Body, used: str, unused: str) -> _Twice | None:
    """Return the only statement that reads one variable twice where the other could be meant."""
    found = []
    for statement in statements(body.node):
        for node in expressions(statement):
            given = _given(node)
            twice = [each for each in given if isinstance(each, ast.Name) and each.id == used]
            if len(twice) == 2 and not hasattr(statement, "body"):
                found.append(_Twice(body.place(statement), rewritten(body, statement, {twice[1]: unused})))
    return only(found)


def _given(node: ast.expr) -> Sequence[ast.expr]:
    match node:
        case ast.Call(args=args):
            return args
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return elts
        case ast.BinOp(left=left, right=ast.Call(func=ast.Attribute(value=value, attr="t" | "transpose"))):
            return (left, value)
        case ast.BinOp(left=left, right=ast.Attribute(value=value, attr="T" | "mT")):
            return (left, value)
    return ()


def _in_a_function(body: Body, used: str, unused: str) -> tuple[_Twice | None, Place | None]:
    """Return such a statement of a function that both are handed on to, and the statement that does so."""
    for statement in statements(body.node):
        for call in calls_in(statement):
            names = [dotted(each) for each in call.args]
            if used not in names or unused not in names:
                continue
            for other in _defined(body.file, callee(call)[1]):
                parameters = [each.arg for each in other.node.args.args]  # type: ignore[union-attr]
                shift = parameters[:1] == ["self"]
                pair = [
                    parameters[at + shift] for at in map(names.index, (used, unused)) if at + shift < len(parameters)
                ]
                if len(pair) == 2 and not _reads(other.node, pair[1]):
                    found = _twice(other, *pair)
                    if found is not None:
                        return found, body.place(statement)
    return None, None


def _defined(file: str, name: str) -> Iterator[Body]:
    for body in functions(file):
        if isinstance(body.node, ast.FunctionDef) and body.node.name in (name, "forward", "__call__"):
            yield body


def _made(body: Body, name: str, before: int) -> tuple[ast.Assign, ast.Call] | None:
    """Return the last statement before a line that gives a variable the result of a call."""
    found = [
        (each, each.value)
        for each in statements(body.node)
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and each.lineno <= before
        if any(dotted(goal) == name for goal in each.targets)
    ]
    return found[-1] if found else None


# BS163: all outputs become the same.


_LIKENESS = frozenset(
    {"Neg", "Mean", "Sum", "Mul", "Add", "Sub", "Rsub", "Div", "Expand", "ClampMin", "Clamp", "Maximum", "Pow", "Sqrt"}
    | {"LinalgVectorNorm", "Norm", "MseLoss", "View", "UnsafeView", "ReshapeAlias", "Select", "Squeeze", "Unsqueeze"}
    | {"Stack", "Slice", "SmoothL1Loss", "Abs", "SumToSize", "ToCopy", "Clone"}
)
"""What a similarity of two outputs, or a distance between them, is made of."""

_COMPARE = frozenset({"Mul", "Sub", "MseLoss"})
_REDUCE = frozenset({"Mean", "Sum"})


def collapsed(
    graph: Graph, made: Collection[tuple[int, int]], first: float, latest: float, since: int
) -> Finding | None:
    """Return the finding that all outputs have become alike, if the loss is a similarity of two of them alone: with
    gradients to both sides, and with nothing that pushes samples apart.

    made: what identifies the nodes of what modules have returned in this step.
    """
    border = {index for index, each in enumerate(graph.identities) if each in made}
    outside = _before(graph, border)
    if not border or any(node.op not in _LIKENESS for node in outside):
        return None
    compares = [node for node in outside if node.op in _COMPARE and _is_of_both(graph, node, border)]
    if not compares:
        return None
    node = compares[0]
    line, operation = line_of(node), operation_of(node)
    texts = [each.text for each in operation.operands[:2]] if operation is not None else []
    one, other = (_owned(graph, each) for each in given(node))
    target = _detached(texts[0 if one < other else 1]) if len(texts) == 2 else ""
    stop = f"{target} on line {line.line}" if target and line is not None else "detach the target"
    return warning(
        "BS163",
        "The outputs have collapsed: they are nearly the same for all samples.",
        (
            f"The cosine between outputs of different samples was {first:.2f} at first, and is {latest:.3f} at step "
            f"{numbered(since)}.",
            if_known(line, "compares two outputs of the model, with gradients to both."),
            "The loss asks only that they are alike: a constant output is its minimum.",
        ),
        f"Stop the gradient on one side: {stop}, with a predictor on the other side, as in SimSiam. Or add a term that "
        "pushes different samples apart.",
        line,
        nodes=(node.index,),
        since=since,
    )


def _before(graph: Graph, border: set[int]) -> list[Node]:
    """Return what stands between the loss and some nodes."""
    found = [node for node in graph.roots if node.index not in border]
    seen = {node.index for node in found}
    for node in found:  # grows as we go
        for each in given(node):
            if each.index not in border and each.index not in seen:
                seen.add(each.index)
                found.append(each)
    return found


def _is_of_both(graph: Graph, node: Node, border: set[int]) -> bool:
    """Whether an operation compares two results of the same parameters."""
    inputs = given(node)
    if len(inputs) != 2 or inputs[0].index == inputs[1].index:
        return False
    if any(each.op in _REDUCE for each in inputs):  # a critic's mean minus another is no distance
        return False
    one, other = (set(below(graph, [each.index])) for each in inputs)
    # A norm is computed from what it divides: neither side may lie below the other.
    apart = inputs[0].index not in other and inputs[1].index not in one
    shared = _owned(graph, inputs[0]) & _owned(graph, inputs[1])
    return apart and bool(shared) and bool(one & border) and bool(other & border)


def _owned(graph: Graph, node: Node) -> set[int]:
    """Return the parameters that a result is computed from: those of a target are some of a prediction's."""
    return {leaf.node for leaf in graph.leaves if leaf.owner} & set(below(graph, [node.index]))


def _detached(text: str) -> str:
    """Return an operand as it is without a gradient: `F.normalize(z.detach(), dim=1)`; empty for what is no code."""
    value = parsed(text)
    if value is None:
        return ""
    given = value.args[0] if isinstance(value, ast.Call) and value.args else None
    inner = dotted(given) if given is not None else None
    if isinstance(value, ast.Call) and inner is not None:
        value.args[0] = ast.parse(f"{inner}.detach()", mode="eval").body
        return ast.unparse(value)
    return f"{simple(text)}.detach()"

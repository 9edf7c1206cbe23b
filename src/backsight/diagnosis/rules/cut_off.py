"""BS121, BS154: a term of the loss trains nothing, or a recurrent state is detached in each iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch

from backsight.diagnosis.amending import gone, written
from backsight.diagnosis.evidence.constants import derivatives, renewed, summands
from backsight.diagnosis.evidence.cuts import detached_whole, ends, measures_accuracy, undoing, where
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, ending, loops_around
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import Body, Place, only, parsed, read_at, statement_at
from backsight.source.bindings import assigned, assignments, bound, parameters_of, target_names, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.edits import OR
from backsight.story.holders import below
from backsight.tape import no_torch_function, running_backward
from backsight.tracing import Met, Part, Severed, current, repeated


@rule("BS121")
def dead_term(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a term of the loss comes of what is trained, and its gradient does not go there.

    Either it is a number without a gradient that is added, which comes of what is trained or of a network that is not,
    or the gradient of a summand ends in leaves, such as the coordinates at which a derivative is taken, that no
    optimizer holds.
    """
    yield from _derivatives(scene)
    yield from _renewed(scene)
    met = scene.met()
    if not met:
        return
    yield from _detached_whole(scene, met)
    sums, terms = summands(scene.graph)
    for index, each in met.items():
        if each.term < 0 or index not in sums:
            continue
        term, cut = each.operands[each.term], _cut(scene, each)
        what = f"`{term}`" if term else "A loss term"
        if cut is not None:
            added = shown(each.line.place, "adds the constant that is left.")
            yield _finding(f"{what} is added to the loss but trains nothing.", cut, added, index)
        elif (apart := _apart(scene, each)) is not None:
            yield _constant(what, apart, each, index)
    leaves = {leaf.node: leaf for leaf in scene.graph.leaves}
    if not any(leaf.owner for leaf in leaves.values()):
        return
    for summand in terms:
        inside = set(below(scene.graph, [summand.index]))
        behind = [leaf for node, leaf in leaves.items() if node in inside]
        if any(leaf.owner for leaf in behind):
            continue
        found = ((i, each, _cut(scene, each)) for i, each in met.items() if i in inside)
        for index, each, cut in found:
            if cut is not None:
                names = listed([leaf.label for leaf in behind], 2)
                used = shown(each.line.place, f"goes into a loss term whose gradient reaches only {names}.")
                yield _finding("A loss term trains nothing that an optimizer holds.", cut, used, index)
                break


def _derivatives(scene: Scene) -> Iterator[Finding]:
    for node, met, cut, _, missed, beside in derivatives(scene):
        used, fix = "uses it in the loss, next to what is trained.", undoing(cut)
        if missed:
            names = listed([leaf.label for leaf in missed], 2)
            used = f"computes a loss term from it, which does not train {names}."
        if beside is not None:
            fix = f"{fix}. {undoing(beside)}"
        yield warning(
            "BS121",
            "A derivative in the loss is a constant: no parameter learns from it.",
            (
                shown(_place(cut), ends(cut)),
                shown(_place(beside), ends(beside)) if beside and _place(beside) != met.line.place else None,
                shown(met.line.place, used),
            ),
            f"{fix}. (retain_graph=True only keeps the graph of what is differentiated.)",
            _place(cut),
            nodes=(node,),
        )


def _renewed(scene: Scene) -> Iterator[Finding]:
    for node, leaf, cut in renewed(scene):
        given = f"({cut.operand})" if cut.operand else ""
        stacked = f"torch.stack({cut.operand})" if cut.operand.isidentifier() else "torch.stack([...])"
        yield warning(
            "BS121",
            "A loss term trains nothing: it is computed from a new leaf, made of values alone.",
            (
                shown(
                    _place(cut),
                    f"{cut.op}{given} copies the values into a new leaf; requires_grad=True starts a new graph.",
                ),
            ),
            f"Keep the graph: write {stacked} for a list of tensors, or use the tensor itself.",
            _place(cut),
            nodes=(node, leaf.node),
        )


def _detached_whole(scene: Scene, met: Mapping[int, Met]) -> Iterator[Finding]:
    """Yield a straight-through estimator, detached as a whole, where other terms train what it is made of."""
    reached = scene.reached()
    for index, each in met.items():
        for cut, leaves, made in each.cuts:
            trained = any((leaf := ref()) is not None and id(leaf) in reached for ref in leaves)
            whole = detached_whole(cut) if trained and cut.line is not None and made > scene.began else None
            if whole is not None:
                yield warning(
                    "BS121",
                    f"`{whole[0]}` passes on no gradient: it is detached as a whole.",
                    (
                        shown(_place(cut), "ends the gradient: the closing parenthesis comes too late."),
                        shown(each.line.place, "computes a part of the loss from it, which trains nothing before it."),
                    ),
                    f"{undoing(cut)}, so the gradient goes straight through.",
                    _place(cut),
                    nodes=(index,),
                )
                return


def _finding(title: str, cut: Severed, used: Fact, node: int) -> Finding:
    place = _place(cut)
    fix = f"{undoing(cut)}; {OR}or, if you only want to log it, leave it out of the loss."
    if measures_accuracy(cut):
        fix = "An accuracy has no gradient: leave the term out of the loss, or log it."
    return warning("BS121", title, (shown(place, ends(cut)), used), fix, place, nodes=(node,))


def _place(cut: Severed) -> Place:
    assert cut.line is not None
    return where(cut) or cut.line.place


def _constant(what: str, cut: Severed, met: Met, node: int) -> Finding:
    if (taken := mistaken(met)) is not None:
        return warning(
            "BS121",
            f"{what} is added to the loss but depends on nothing that is trained.",
            (
                shown(taken.place, f"reads `{taken.read}`, which is computed without what is trained."),
                if_known(taken.computed, f"computes `{taken.unused}`, of the same shape, which {taken.beside}."),
                shown(met.line.place, "adds the constant."),
            ),
            f"Use {taken.unused} in place of {taken.read}: {taken.mended}{written(taken.place, taken.mended)}.",
            taken.place,
            nodes=(node,),
        )
    return warning(
        "BS121",
        f"{what} is added to the loss but depends on nothing that is trained.",
        (
            shown(_place(cut), "computes it from parameters that this loss does not train."),
            shown(met.line.place, "adds it, as a constant."),
        ),
        "Compute it from what you want to train: one of its operands may be the wrong one. If you only want to log "
        "it, leave it out of the loss.",
        met.line.place,
        nodes=(node,),
    )


def _apart(scene: Scene, met: Met) -> Severed | None:
    """Return where a number that is added was computed in this very step with parameters, none of which is trained."""
    reached = scene.reached()
    if not met.cuts or any(
        (p := ref()) is not None and id(p) in reached for _, leaves, _ in met.cuts for ref in leaves
    ):
        return None
    ways = {"frozen", "no_grad", "inference"}
    every = ((cut, made) for cut, _, made in met.cuts if cut.by in ways and cut.line)
    return next((cut for cut, made in every if _is_of_this_step(scene, cut, made, met)), None)


def _is_of_this_step(scene: Scene, cut: Severed, made: int, met: Met) -> bool:
    """Whether a cut was made in this step: before its first operation, too, where the text has it above the sum."""
    if made != scene.began or cut.line is None:
        return made > scene.began
    (body, statement), (around, _) = read_at(cut.line.place), read_at(met.line.place)
    if body is None or around is None or statement is None or body.node is not around.node:
        return False
    at, sums = cut.line.line, met.line.line
    is_in_turn = loops_around(body, at) == loops_around(body, sums)
    return at < sums and is_in_turn and set(conditions_around(body, at)) <= set(conditions_around(body, sums))


def _cut(scene: Scene, met: Met) -> Severed | None:
    """Return what cuts an operand off in this step from leaves of the loss, unless `term.detach()` is added."""
    found = next((each for each in met.cuts if each[0].by != "frozen"), None)
    if found is None:
        return None
    cut, leaves, made = found
    meant = cut.by in ("detach", "data") and (met.term < 0 or (cut.line and cut.line.place == met.line.place))
    reached = scene.reached()
    trained = any((leaf := ref()) is not None and id(leaf) in reached for ref in leaves)
    return cut if cut.line and trained and not meant and _is_of_this_step(scene, cut, made, met) else None


# A variable that was taken for another one: what the loss should read is never read, or something is compared with
# itself, and what it reads is no result of what is trained.


_DEEPEST = 16

_PASSES = frozenset({"softmax", "log_softmax", "sigmoid", "logsigmoid", "tanh", "relu", "normalize", "detach", "clone"})
"""What makes of each row of a tensor another one."""


class Mistaken(NamedTuple):
    """The statement that reads `read`, and what it would be with `unused`, which another statement computes."""

    place: Place
    read: str
    unused: str
    computed: Place | None
    mended: str
    beside: str = "nothing reads"


def mistaken(met: Met) -> Mistaken | None:
    """Return which variable of the function was taken for another one in a term that is a constant.

    The other one was computed with what is trained, nothing reads it, and it has the same shape. The statement is the
    first on the way from the term that reads what the term is made of.
    """
    body, statement = read_at(met.line.place)
    if body is None or statement is None:
        return None
    tensors = _variables(met.line.file, body)
    unused = [name for name in _never_read(body) if (held := tensors.get(name)) is not None and held.requires_grad]
    if met.term < 0:
        return None
    if len(unused) != 1:
        return _with_itself(body, met.operands[met.term], statement, tensors)
    ((name,), made) = unused, assignments(body, unused[0])
    computed = statement_at(body, *made[0].position) if len(made) == 1 else None
    if computed is None:
        return None
    beside = {node.id for node in expressions(computed) if isinstance(node, ast.Name)}
    alike = {
        each
        for each, held in tensors.items()
        if each != name and not held.requires_grad and held.shape == tensors[name].shape and each not in beside
    }
    found = _reading(body, met.operands[met.term], statement, alike)
    if found is None:
        return None
    reader, read = found
    mended = _first_replaced(body, reader, read, name)
    return Mistaken(body.place(reader), read, name, made[0], mended) if mended else None


def _with_itself(body: Body, term: str, statement: ast.stmt, tensors: Mapping[str, torch.Tensor]) -> Mistaken | None:
    """Return which variable was taken for the only one of its shape that is trained, where a call compares it with
    itself."""
    ways = [(parsed(term), statement)]
    for value, reader in ways:  # grows as we go
        calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)] if value is not None else []
        for call in calls:
            sides = [_side(body, each, reader, tensors) for each in call.args[:2]]
            if len(sides) == 2 and sides[0] is not None and sides[1] is not None and sides[0][1] == sides[1][1]:
                return _other(body, *sides[0], tensors)
        for name in _names(value) if value is not None and len(ways) < _DEEPEST else ():
            places = assignments(body, name, before=reader.lineno)
            made = statement_at(body, *places[-1].position) if places else None
            ways += [(made.value, made)] if isinstance(made, ast.Assign) else []
    return None


def _side(
    body: Body, given: ast.expr, reader: ast.stmt, tensors: Mapping[str, torch.Tensor]
) -> tuple[ast.stmt, str] | None:
    """Return the only tensor whose rows an operand is made of, and the statement that makes it."""
    places = assignments(body, given.id, before=reader.lineno) if isinstance(given, ast.Name) else ()
    made = statement_at(body, *places[-1].position) if places else None
    for value, statement in ((made.value if isinstance(made, ast.Assign) else None, made), (given, reader)):
        read = {each for each in _names(value) if each in tensors} if value is not None else set()
        calls = (each for each in ast.walk(value) if isinstance(each, ast.Call)) if value is not None else ()
        if statement is not None and len(read) == 1 and all(callee(each)[1] in _PASSES for each in calls):
            return statement, read.pop()
    return None


def _other(body: Body, reader: ast.stmt, read: str, tensors: Mapping[str, torch.Tensor]) -> Mistaken | None:
    held = tensors[read]
    alike = (n for n, t in tensors.items() if t.requires_grad and t.shape == held.shape and n != read)
    name = only(each for each in alike if assignments(body, each, before=reader.lineno))
    mended = _first_replaced(body, reader, read, name) if name is not None and not held.requires_grad else ""
    if name is None or not mended:
        return None
    made = assignments(body, name, before=reader.lineno)[-1]
    return Mistaken(body.place(reader), read, name, made, mended, "is trained")


def _variables(file: str, body: Body) -> Mapping[str, torch.Tensor]:
    """Return the tensors that variables of a running function hold."""
    first, last = getattr(body.node, "lineno", 0), getattr(body.node, "end_lineno", None) or 2**31
    with no_torch_function():
        return {
            name.path: tensor
            for tensor, name in search((), collect=(torch.Tensor,)).found
            if isinstance(tensor, torch.Tensor) and name.path.isidentifier()
            if name.file == file and first <= (name.line or 0) <= last
        }


def _never_read(body: Body) -> Iterator[str]:
    """Yield the variables of a function that a call gives a value, and that nothing reads, not even inside of it."""
    inside = [body, *(each for each in functions(body.file) if each.node is not body.node and _is_around(body, each))]
    read = {
        node.id
        for each in inside
        for statement in statements(each.node)
        for node in expressions(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for statement in statements(body.node):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and len(statement.targets) == 1:
            name = dotted(statement.targets[0]) or ""
            if name.isidentifier() and name not in read and name not in parameters_of(body.node):
                yield name


def _is_around(body: Body, other: Body) -> bool:
    first, last = getattr(body.node, "lineno", 0), getattr(body.node, "end_lineno", None) or 2**31
    return first <= getattr(other.node, "lineno", -1) <= last


def _reading(body: Body, term: str, statement: ast.stmt, alike: set[str]) -> tuple[ast.stmt, str] | None:
    """Return the statement furthest from a term that reads one of `alike`, by first operands, and which it reads."""
    try:
        read = _names(ast.parse(term, mode="eval"))
    except SyntaxError:
        return None
    found, reader = None, statement
    for _ in range(_DEEPEST):
        name = next((each for each in read if each in alike), None)
        if name is not None:
            found = reader, name
            if read.count(name) > 1:  # it is compared with itself
                return found
        else:
            name = next((each for each in read if assignments(body, each, before=reader.lineno)), None)
            if found is not None:
                return found
        places = assignments(body, name, before=reader.lineno) if name is not None else ()
        made = statement_at(body, *places[-1].position) if places else None
        if not isinstance(made, ast.Assign):
            return found
        reader, read = made, _names(made.value)
    return found


def _names(node: ast.AST) -> list[str]:
    """Return the variables that an expression reads, in the order of its text."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [n.id for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]


def _first_replaced(body: Body, statement: ast.stmt, read: str, other: str) -> str:
    """Return a statement of one line with another variable where it reads one for the first time."""
    first = statement.lineno
    text = body.lines[first - 1][statement.col_offset : statement.end_col_offset]  # not shortened
    nodes = [n for n in expressions(statement) if isinstance(n, ast.Name) and n.id == read and n.lineno == first]
    if not nodes or statement.end_lineno != first or not body.lines[first - 1].isascii():
        return ""
    at = min(n.col_offset for n in nodes) - statement.col_offset
    return text[:at] + other + text[at + len(read) :] if text[at:].startswith(read) else ""


# BS154: a recurrent state is detached in each iteration, and the loss trains the last iteration alone.


@rule("BS154")
def cut_each_turn(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: the same parameters are cut off again and again, and only what was computed last remains.

    Truncated backpropagation runs a backward, or has a part of the loss, between two cuts.
    """
    watch = current()
    if watch is None or watch.level != "exact" or scene.moment != "during backward":
        return
    numbers = {number for node in scene.graph.nodes if (number := node.sequence) is not None}
    marks = [each.mark for each in watch.backwards if each.thread in each.marks]
    for cut, parts, latest in repeated(watch):
        period = _period(scene, parts, latest)
        if not period or cut.line is None or any(parts[0][1] < mark <= latest for mark in marks):
            continue
        found = detached(cut.line.place)
        if found is None or _is_running(found):
            continue
        # What is detached once it is computed, is so after the last iteration as well: the one before that ends it.
        last = latest - period if found.order == "after" else latest
        # Of the iteration before, what was computed until its cut is as old as what this one began with.
        before = last - period
        if last in numbers and before not in numbers and not any(parts[0][1] <= each < before for each in numbers):
            yield _of_turns(found, cut, cut.line.place, (latest - parts[0][1]) // period + (found.order != "after"))
            return


def _period(scene: Scene, parts: Sequence[Part], latest: int) -> int:
    """Return how many nodes there are between two cuts of what is trained; 0 where it is not always the same."""
    if any(number < scene.began for _, number in parts):
        return 0
    begun = sorted({number for _, number in parts})
    turns, rest = divmod(latest - begun[0], begun[1] - begun[0]) if len(begun) > 1 else (0, 1)
    trained = scene.reached()
    behind = [
        {id(leaf) for refs, number in parts if number == each for ref in refs if (leaf := ref()) is not None}
        for each in begun[1:]
    ]
    alike = bool(behind) and bool(behind[0]) and all(each == behind[0] for each in behind) and behind[0] <= trained
    return begun[1] - begun[0] if alike and turns > 1 and not rest else 0


def _is_running(found: Detached) -> bool:
    """Whether the backward was called from within the loop."""
    called = running_backward()
    frame = called[1] if called is not None else None
    while frame is not None:
        if frame.f_code.co_filename == found.loop.file and frame.f_lineno in found.lines:
            return True
        frame = frame.f_back
    return called is None


def _of_turns(found: Detached, cut: Severed, place: Place, lost: int) -> Finding:
    names = listed(found.names, 3)
    one = len(found.names) == 1
    return warning(
        "BS154",
        f"{names} {'is' if one else 'are'} detached in each iteration: the loss trains only the last one.",
        (
            shown(found.place, f"detaches {'it' if one else 'them'} in each iteration."),
            if_known(place if place.line != found.place.line else None, ends(cut)),
            "The graph of the loss holds the last iteration alone; no gradient reaches the "
            f"{counted(lost, 'iteration')} before it.",
        ),
        _fix(found),
        found.place,
    )


def _fix(found: Detached) -> str:
    attached = found.place.text.replace(".detach()", "").replace(".data", "")
    change = f"Remove this line{gone(found.place)}"
    if found.order == "within":
        change = f"Write {attached}{written(found.place, attached)}"
    return (
        f"{change}, so that the graph reaches back to the first iteration. If {listed(found.names, 3)} may come from "
        f"an earlier training step, detach once, before line {found.loop.line}."
    )


# What a loop over the steps of a sequence carries from one step to the next, and detaches on the way.


_TAKES_APART = frozenset({"unbind", "transpose", "permute", "swapaxes", "movedim"})
_TAKES_ONE = frozenset({"select", "index_select"})


@dataclass(frozen=True)
class Detached:
    """A variable that each iteration detaches: the statement, the names, the header of the loop, and its lines.

    order: whether it is detached before it is computed anew, within the statement that does that, or after it.
    """

    names: tuple[str, ...]
    place: Place
    order: Literal["before", "within", "after"]
    loop: Place
    lines: range


def detached(cut: Place) -> Detached | None:
    """Return what a loop detaches in each iteration at a cut, or by calling the function that cuts.

    Only a loop that takes another step of a sequence in each iteration: what is iterated on one input, such as a fixed
    point or the samples of a diffusion, may be meant to learn from the last iteration alone.
    """
    body, statement = read_at(cut)
    if body is None or statement is None:
        return None
    if (here := _in_loop(body, statement)) is not None:
        return here
    inside = body.name == "forward" and statement in body.node.body
    called = _cells(body) if inside else {body.name}
    calling = [
        (each, s)
        for each in functions(cut.file)
        if each.node is not body.node
        for s in statements(each.node)
        if any(callee(call)[1] in called for call in calls_in(s))
    ]
    found = [_in_loop(each, s, inside=inside) for each, s in calling if _loop(each, s) is not None]
    if len(found) != 1 or found[0] is None:
        return None
    return replace(found[0], place=body.place(statement), order="before") if inside else found[0]


def _cells(body: Body) -> set[str]:
    """Return what the file calls the modules whose `forward` this is: `cell` of `self.cell = Cell(4)`."""
    every = list(functions(body.file))
    classes = {c.name for c in ast.walk(every[0].node) if isinstance(c, ast.ClassDef) and body.node in c.body}
    pairs = (pair for each in every for s in statements(each.node) for pair in assigned(s))
    return {
        ending(dotted(target)) for target, value in pairs if isinstance(value, ast.Call) and callee(value)[1] in classes
    }


def _loop(body: Body, statement: ast.stmt) -> ast.For | None:
    """Return the innermost loop that runs a statement in each of its iterations, on no condition."""
    return next((s for s in statements(body.node) if isinstance(s, ast.For) and statement in s.body), None)


def _in_loop(body: Body, statement: ast.stmt, *, inside: bool = False) -> Detached | None:
    """Return what a statement detaches in each iteration of a loop; `inside`: in a module that it calls."""
    loop = _loop(body, statement)
    if loop is None or not isinstance(statement, ast.Assign) or not _takes_steps(body, loop):
        return None
    read = {use.name for use in uses(statement) if not use.binds}
    names = tuple(dict.fromkeys(use.name for use in uses(statement) if use.binds and use.name in read))
    again = [
        inner.lineno
        for each in loop.body
        for inner in _within(each)
        if inner is not statement and not set(names).isdisjoint(bound(inner))
    ]
    itself = inside or any(callee(call)[1] != "detach" and _detaches(call, names) for call in calls_in(statement))
    if not names or not (itself or again):
        return None
    order: Literal["before", "within", "after"] = (
        "within" if itself else "before" if max(again) > statement.lineno else "after"
    )
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    return Detached(names, body.place(statement), order, body.place(loop), lines)


def _within(statement: ast.stmt) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(statement) if isinstance(each, ast.stmt))


def _detaches(call: ast.Call, names: tuple[str, ...]) -> bool:
    """Whether an argument of a call is one of the variables, detached: `cell(x, h.detach())`."""
    given = [*call.args, *(each.value for each in call.keywords)]
    inner = (each for whole in given for each in ast.walk(whole) if isinstance(each, ast.Attribute))
    return any(each.attr in ("detach", "data") and dotted(each.value) in names for each in inner)


def _takes_steps(body: Body, loop: ast.For) -> bool:
    """Whether each iteration takes one step of a sequence: `for x in xs.unbind(1)`, or `xs[:, t]` in it."""
    turning = set(target_names(loop.target))
    if _is_taken_apart(body, loop.iter):
        return True
    sized = any(isinstance(each, ast.Attribute) and each.attr in ("size", "shape") for each in ast.walk(loop.iter))
    for each in (e for s in loop.body for inner in _within(s) for e in expressions(inner)):
        match each:
            case ast.Subscript(slice=ast.Tuple(elts=parts)):
                if any(isinstance(part, ast.Name) and part.id in turning for part in parts):
                    return True
            case ast.Subscript(slice=ast.Name(id=name)):
                if sized and name in turning:
                    return True
            case ast.Call():
                if callee(each)[1] in _TAKES_ONE and any(dotted(given) in turning for given in each.args):
                    return True
    return False


def _is_taken_apart(body: Body, iterated: ast.expr) -> bool:
    """Whether an expression, or what a name in it was assigned, makes the steps the first dimension."""
    for each in ast.walk(iterated):
        if isinstance(each, ast.Call) and callee(each)[1] in _TAKES_APART:
            return True
        if isinstance(each, ast.Name):
            made = [s.value for s in statements(body.node) if isinstance(s, ast.Assign) and each.id in bound(s)]
            calls = (call for value in made for call in ast.walk(value) if isinstance(call, ast.Call))
            if any(callee(call)[1] in _TAKES_APART for call in calls):
                return True
    return False

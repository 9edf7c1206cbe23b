"""Two losses over one forward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.pairs import Added, Moved, added, moved, perhaps_moved, shared_part
from backsight.diagnosis.errors.second_backward.repeated import retains
from backsight.diagnosis.errors.second_backward.returned import returned
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, assignments, backward_roots, parsed, read_at, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import are_alternatives, bound, names_read, uses
from backsight.source.body import dotted, expressions, statements
from backsight.source.edits import OR, Edit, instead, put, put_at, repeat, without_marks, write
from backsight.source.rewriting import rewritten
from backsight.story.anew import each_detached, lines_of, run_again
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.fixes import on_lines
from backsight.story.handed import handed
from backsight.story.holders import below, border, leaves_below, made_in, results_in, structure, ways_into
from backsight.story.stepping import Step, steps_in
from backsight.tape import Graph, Leaf, Node
from backsight.tracing import Line

_FEW = 16
"""Results that two losses share and that are looked at one by one."""


def another_loss(case: Case) -> Finding | None:
    """Another loss of the same function has been through operations that this one needs too."""
    for level in case.failure.users:
        for place, name, other in _other_losses(case, level):
            theirs = structure(other)
            shared = case.graph.shared(theirs)
            if any(node.index in case.graph.saved for node in shared) and case.ran(place, shared):
                return _two_losses(_Pair(case, level, place, name, theirs, {node.index for node in shared}))
    return None


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two losses of one function: the one that failed there, and the `other`, whose backward at `place` has freed the
    operations `shared` of this one's graph; `theirs` is the graph of the other."""

    case: Case
    level: Level
    place: Place
    other: str
    theirs: Graph
    shared: set[int]

    @property
    def graph(self) -> Graph:
        return self.case.graph

    @property
    def loss(self) -> str:
        return self.case.loss if self.level is self.case.failure.user else "this loss"

    def line(self, loss: str) -> int:
        """Where a loss runs backward."""
        return self.level.line if loss == self.loss else self.place.line

    def reads(self, loss: str) -> dict[str, Ancestor]:
        """What a loss is computed from in the function."""
        return ancestors(self.level.body, loss, self.line(loss))

    def detached(self, loss: str, *names: str) -> dict[int, str]:
        """The statements that compute a loss, by their lines, with some variables detached."""
        return each_detached(self.level.body, loss, self.line(loss), *names)

    @cached_property
    def steps(self) -> list[Step]:
        """The steps between the two backwards."""
        first, last = sorted((self.place.position, self.level.place.position))
        return [step for step in steps_in(self.level) if first < step.place.position < last]

    @cached_property
    def trained(self) -> list[Step]:
        """Those whose parameters are known."""
        return [step for step in self.steps if step.trained]

    @cached_property
    def fed(self) -> list[Leaf]:
        """The leaves that shared operations consume."""
        start, inputs = self.graph.columns.start, self.graph.columns.inputs
        consumed = {int(j) for i in self.shared for j in inputs[start[i] : start[i + 1]]}
        return [leaf for leaf in self.graph.leaves if leaf.node in consumed]

    @cached_property
    def leaves(self) -> set[int]:
        """The ids of their tensors."""
        return {id(leaf.tensor()) for leaf in self.fed}

    def title(self, through: str | None) -> str:
        part = f"behind {through}" if through else "that both need"
        return f"{self.other}.backward() freed the part of the graph {part}, which {self.loss}.backward() needs too."

    def frees(self, through: str | None) -> Fact:
        what = f"{counted(len(self.shared), 'operation')}{f' behind {through}' if through else ''}"
        return shown(self.place, f"frees {what} that {self.other} and {self.loss} share.")


def _other_losses(case: Case, level: Level) -> Iterator[tuple[Place, str, torch.Tensor]]:
    """The other backward calls of this level's function, with the tensors that they run on."""
    if level.body is None:
        return
    for name, place in backward_roots(level.body):
        if retains(place) or place.position == level.place.position:
            continue
        if are_alternatives(level.body, place, level.place):
            continue
        for tensor in _run_on(level, name, place):
            if tensor is not case.root:
                yield place, name, tensor


def _run_on(level: Level, expression: str, place: Place) -> list[torch.Tensor]:
    """What backward ran on at `place`: the variable, or of `critic.mean()` the nearest that holds a result; nothing if
    it has not run yet, as a variable has no value."""
    assert level.body is not None
    unset = (name for name, _ in uses(parsed(expression)) if name not in level.variables)
    deleted = any(isinstance(each, ast.Delete) for each in statements(level.body.node))
    if not deleted and any(assignments(level.body, name) for name in unset):
        return []
    names = [expression, *ancestors(level.body, expression, place.line)]
    return next((held for name in names if (held := results_in(level.value(name)))), [])


def _two_losses(pair: _Pair) -> Finding:
    if (found := _each_for_itself(pair)) is not None:
        return found
    case, level, other, loss = pair.case, pair.level, pair.other, pair.loss
    common = {node.index for node in pair.theirs.shared(pair.graph)}
    weighed = (*_weighed(case, other, pair.theirs, common), *_weighed(case, loss, pair.graph, pair.shared))
    joints = {each.joint for each in weighed} or {_key(pair.graph, i) for i in border(pair.graph, pair.shared)}
    through = _held(case, level, joints)
    evidence: list[Fact] = [pair.frees(through), shown(level.place, "needs them again.")]
    add = added(level, pair.place, other, loss)
    for apart, stands in ((other, _steps_elsewhere(pair)), (loss, _is_for_another(pair))):
        those = (each for each in weighed if each.loss == apart)
        seen = next((each for each in those if _held(case, level, {each.joint}) == through), None)
        read = pair.reads(apart).get(through) if through else None
        where = read.read if read else seen.line.place if seen and seen.line else None
        if through and (seen or (stands and where)):
            return _cut_off(pair, apart, through, joints, seen, where, add, stands=stands)
    if found := _returned_together(pair):
        return found
    if step := _trains_a_part(pair):
        evidence.append(
            f"{step.call} in between trains only a part of what they share: each loss has its own optimizer."
        )
        why_not = "(Adding the losses won't help: each optimizer would get the gradients of both.)"
        return explanation(pair.title(through), evidence, f"{_forward_again(pair, step)} {why_not}", level.place)
    if between := moved(case, level, pair.place, pair.shared):
        return _over_old_weights(pair, through, between, evidence, add)
    fix = f"Add the losses and call backward once: {add.how}."
    if perhaps := perhaps_moved(level, pair.place):
        again = f"{_again(through)} below line {perhaps.line}, {perhaps.text}"
        fix = f"{again}, if that changes weights. If it does not, add the losses and call backward once."
    elif add.how == add.call and pair.steps:
        fix += " Step the optimizers after that."
    return explanation(pair.title(through), evidence, fix, level.place)


def _cut_off(
    pair: _Pair,
    apart: str,
    through: str,
    joints: set[tuple[int, int]],
    seen: _Weighed | None,
    where: Place | None,
    add: Added,
    *,
    stands: bool,
) -> Finding:
    """One of the losses should not train what computes the variable by which it comes to what both share.

    seen: where it only weights that loss. stands: whether its optimizer trains nothing of that.
    """
    level, only_read = pair.level, stands and not seen
    beside = [*_beside(pair, apart, through, joints)] if only_read else []
    edits, names = _all_detached(pair, apart, [through, *beside]) if beside else {}, [through, *beside]
    cut, detached = listed([f"{name}.detach()" for name in names], len(names)), pair.detached(apart, *names)
    writing = "".join(str(write(at, code)) for at, code in _at(level, detached))
    writing = writing or str(_amid(seen.line if seen else None, through))
    fix = f"Compute {apart} from {cut}{writing}: its backward then stops there."
    attached: list[Fact] = []
    if edits:
        every = [name for names, _ in edits.values() for name in names]
        through = listed(every)
        attached = [
            shown(at, f"computes {apart} from {listed(names)}, still attached to its graph.")
            for at, (names, _) in edits.items()
        ]
        lines = "; ".join(f"on line {at.line}, `{new}`{write(at, new)}" for at, (_, new) in edits.items())
        fix = f"Detach {'both' if len(every) == 2 else 'all of them'}, so that its backward stops there: {lines}."
    elif where:
        attached = [shown(where, f"computes {apart} from {through}, still attached to its graph.")]
        if len(names) == 1 and detached:
            fix = f"Compute {apart} from {cut}: {on_lines(detached, level.place.file)}. Its backward then stops there."
    if stands:
        reason = f"The optimizer step after {apart}.backward() does not update what computes {through}."
    elif seen and seen.others:
        part = _held(pair.case, level, seen.others) or shared_part(pair.case, seen.others) or "other operations"
        reason = (
            f"{through} only weights {apart}, as an advantage should: {apart} should not train it. But both losses "
            f"also depend on {part}."
        )
        fix = f"Compute {apart} from {through}.detach(), and add the losses, which still share {part}: {add.how}."
        fix = f"{fix[:-1]}{writing}." if writing and add.edits else without_marks(fix)
    else:
        reason = f"{through} only weights {apart}, as an advantage should; adding the losses would train it with both."
        fix += f" {OR}If {apart} should train it too, add the losses: {add.how}."
    evidence = (*attached, pair.frees(through), shown(level.place, "needs them again."), reason)
    return explanation(pair.title(through), evidence, fix, where or level.place)


def _returned_together(pair: _Pair) -> Finding | None:
    """One call has returned both losses, each with its own optimizer: which variables of its function are in both."""
    level, other, loss = pair.level, pair.other, pair.loss
    step, both = next(iter(pair.trained), None), returned(level, loss, other)
    after = next((each for each in steps_in(level) if each.place.position > level.place.position), None)
    if step is None or after is None or both is None or not (names := both.variables):
        return None
    writing, cut = both.apart(after.trained) if after.trained.isdisjoint(step.trained) else ("", [])
    through, again = names[0], put_at(both.call.text, "below", step.place)
    why = f"{step.call} in between trains only a part of what they share: each loss has its own optimizer."
    fix = f"Compute both again for {loss}: {again}."
    if cut:
        what, why = listed(cut), f"{after.call} trains nothing of what computes {listed(cut)}."
        fix = f"Detach {what} in {loss}, so that its backward stops there: {writing}. {OR}Or c{fix[1:]}"
    made = [both.body.place(each) for each in both.shared.values() if bound(each) & {names[0], *cut}]
    return explanation(
        pair.title(through),
        (
            *(shown(place, "is computed for both losses.") for place in made),
            pair.frees(through),
            shown(level.place, "needs them again."),
            why,
        ),
        fix,
        made[-1],
    )


def _each_for_itself(pair: _Pair) -> Finding | None:
    """Each loss reads what only the optimizer of the other trains: detached there, none of it is shared."""
    cuts, other, loss = _of_the_other(pair), pair.other, pair.loss
    edits = [pair.detached(each, *names) for each, names in cuts.items()]
    if not edits or not all(edits):
        return None
    every = listed([*dict.fromkeys(name for names in cuts.values() for name in names)], _FEW)
    computed = {
        each: shown(
            pair.reads(each)[names[0]].read, f"computes {each} from {listed(names, _FEW)}, still attached to its graph."
        )
        for each, names in cuts.items()
    }
    return explanation(
        pair.title(every),
        (
            *computed.values(),
            pair.frees(every),
            shown(pair.level.place, "needs them again."),
            f"Each has its own optimizer: the step after {other}.backward() does not update what computes "
            f"{listed(cuts[other], _FEW)}, and the one after {loss}.backward() not what computes "
            f"{listed(cuts[loss], _FEW)}.",
        ),
        f"Detach in each loss what its own optimizer does not train: "
        f"{on_lines({**edits[0], **edits[1]}, pair.level.place.file)}.",
        computed[other].place,
    )


def _of_the_other(pair: _Pair) -> dict[str, list[str]]:
    """The variables of each loss that only the other's optimizer trains, if both share nothing then; empty if not."""
    graph, level, other, loss = pair.graph, pair.level, pair.other, pair.loss
    steps, between = [*steps_in(level)], next(iter(pair.trained), None)
    after = next((each for each in steps if each.place.position > level.place.position), None)
    if pair.place.position > level.place.position or between is None or after is None:
        return {}
    owned = {each for step in steps for each in step.trained}
    cuts, left = {other: list[str](), loss: list[str]()}, {other: set[int](), loss: set[int]()}
    for joint in border(graph, pair.shared):
        leaves = owned & {id(leaf.tensor()) for leaf in leaves_below(graph, joint)}
        for apart, step in ((other, between), (loss, after)):
            if leaves & step.trained:
                left[apart].update(below(graph, [joint]))
                continue
            names = (each for each in pair.reads(apart) if [joint] == made_in(graph, level.value(each)))
            if not leaves or (name := next(names, None)) is None:
                return {}
            cuts[apart].append(name)
    return cuts if all(cuts.values()) and not left[other] & left[loss] & set(graph.saved) else {}


def _beside(pair: _Pair, loss: str, through: str, joints: set[tuple[int, int]]) -> Iterator[str]:
    """The other variables through which a loss comes to what is shared: one that is left is the next error."""
    graph, level = pair.graph, pair.level
    nodes = {i for i, key in enumerate(graph.identities) if key in joints}
    nodes -= set(made_in(graph, level.value(through)))
    for name in pair.reads(loss):
        held = nodes & set(made_in(graph, level.value(name)))
        if held and name != through:
            nodes -= held
            yield name


def _all_detached(pair: _Pair, loss: str, names: Sequence[str]) -> dict[Place, tuple[list[str], str]]:
    """Where a loss comes to what is shared through several variables: each statement that reads some of them, which,
    and how it is written with these detached. Empty where one cannot be written so."""
    reads, body, found, edits = pair.reads(loss), pair.level.body, dict[Place, list[str]](), {}
    for name in names if names[0] in reads else ():
        found.setdefault(reads[name].read, []).append(name)
    for place, inside in found.items():
        statement = statement_at(body, *place.position)
        changes = {each: f"{dotted(each)}.detach()" for each in expressions(statement) if dotted(each) in inside}
        new = rewritten(body, statement, changes) if body is not None and statement is not None and changes else ""
        if not new:
            return {}
        edits[place] = (inside, new)
    return edits


def _over_old_weights(pair: _Pair, through: str | None, between: Moved, evidence: list[Fact], add: Added) -> Finding:
    """The weights are others by now, so that the sum of the losses would be another training."""
    case, level, loss = pair.case, pair.level, pair.loss
    read = pair.reads(loss).get(through) if through else None
    made = _made(case, level, through) if through else None
    forward = f", as line {made.line} does, {made.text}" if made and made.file == level.place.file else ""
    lines: list[Fact] = [evidence[0], between.told(through or ""), *evidence[1:]]
    if read and read.read != level.place:
        after = read.read.position > between.place.position
        lines.insert(2 if after else 0, shown(read.read, f"computes {loss} from {'the old ' * after}{through}."))
    stands = between.below == between.place
    below_it = f"below line {between.place.line}, {between.place.text}" if stands else f"below line {between.below.end}"
    again = run_again(case, level, between.below, {*pair.shared, *(leaf.node for leaf in pair.fed)})
    edit = repeat(again, "below" if stands else "beside", between.below) if again else ""
    fix = f"{_again(through)} {below_it}{forward}, and compute {loss} from that{edit}."
    if through and ways_into(case.graph, pair.shared, made_in(case.graph, level.value(through))):
        which = lines_of(level.body, again) if again and level.body else f"the forward pass of {loss}"
        fix = f"Run {which} again {below_it}{edit}: {loss} then has a graph of its own."
    if between.by_step and not again and made and through in names_read(read_at(made)[1]):
        fix = (
            f"If both losses share one step, add them: {add.how}{', then step' * (add.how == add.call)}. {OR}Or run "
            f"the forward pass that has made what {through} is put together from again, {below_it}."
        )
    elif between.by_step:
        fix += f" {OR}Or, if both losses share one step, add them: {add.how}{', then step' * (add.how == add.call)}."
    else:
        fix += " Adding the losses would backpropagate both through the old weights."
    return explanation(pair.title(through), lines, fix, read.read if read else level.place)


def _forward_again(pair: _Pair, step: Step) -> str:
    """Which lines to run again below the step that trains a part of what two losses share; where the first loss trains
    nothing behind a variable, it is computed from that detached, and the lines are those below it."""
    case, level, graph, theirs, loss = pair.case, pair.level, pair.graph, pair.theirs, pair.loss
    stepped = {leaf.node for leaf in graph.leaves if id(leaf.tensor()) in step.trained}
    below_it = f"below line {step.place.line}, `{step.call}`"
    for name, each in reversed(pair.reads(pair.other).items()):
        value = level.value(name)
        behind, made = set(below(graph, made_in(graph, value))), made_in(theirs, value)
        if not pair.shared & behind or stepped & behind or ways_into(theirs, below(theirs, made), made):
            continue
        edits = pair.detached(pair.other, name)
        lines = run_again(case, level, step.place, (pair.shared - behind) | stepped)
        if [line.line for line in lines] == [*edits] == [each.read.line]:
            again = put(each.read.text, "below", step.place)
            return (
                f"Compute {pair.other} from {name}.detach(), as {step.call} trains nothing that {name} is computed "
                f"from: {on_lines(edits, level.place.file)}. For {loss}, put `{each.read.text}` {below_it}{again}."
            )
    lines = run_again(case, level, step.place, pair.shared | stepped)
    if level.body is None or not lines:
        return f"Run the forward pass of {loss} again {below_it}."
    edit = repeat(lines, "below", step.place)
    return f"Run {lines_of(level.body, lines)} again {below_it}{edit}: {loss} then has a graph of its own."


def _again(through: str | None) -> str:
    return f"Compute {through} again" if through else "Run the forward pass again"


def _made(case: Case, level: Level, through: str) -> Place | None:
    """The statement that made what a variable holds, in the outermost function that has it."""
    held = results_in(level.value(through))
    found = handed(case.failure, held[0]) if len(held) == 1 else None
    return found.assigned if found else None


@dataclass(frozen=True)
class _Weighed:
    """A loss that multiplies what it trains by something shared, as a policy's loss does by the advantage.

    joint: what tells the shared operation. line: where the product is made. others: what tells the other results that
        both losses consume.
    """

    loss: str
    joint: tuple[int, int]
    line: Line | None
    others: set[tuple[int, int]]


def _weighed(case: Case, loss: str, graph: Graph, shared: set[int]) -> Iterator[_Weighed]:
    """Follow each shared result through the loss's own operations, to the first that joins it with something else."""
    joints = border(graph, shared)
    products: dict[int, Node] = {}
    for joint in joints if len(joints) <= _FEW else ():
        derived, meetings = {joint}, list[Node]()
        for i in reversed(range(joint)):  # from producers to consumers
            inputs = [edge.node for edge in graph.nodes[i].inputs if edge is not None] if i not in shared else []
            if any(each.index in derived for each in inputs):
                beside = [each for each in inputs if each.index not in derived]
                derived |= set() if beside else {i}
                is_product = graph.nodes[i].op in ("Mul", "Div") and not any(e.kind == "leaf" for e in beside)
                own = not any(each.index in shared for each in beside)
                meetings += [graph.nodes[i]] if beside else []
                products |= {joint: graph.nodes[i]} if beside and is_product and own and len(meetings) == 1 else {}
    for joint, product in products.items():
        others = {_key(graph, each) for each in joints if each != joint}
        line = case.watch.line_of(product) if case.watch else None
        yield _Weighed(loss, _key(graph, joint), line, others)


def _amid(line: Line | None, name: str) -> Edit | str:
    """What detaches a variable in the expression that a watch has seen to use it, of those in a statement."""
    body, statement = read_at(line.place if line is not None else None)
    if line is None or body is None or statement is None:
        return ""
    whole = next((each for each in expressions(statement) if body.text(each) == line.segment), None)
    nodes = [each for each in ast.walk(whole) if isinstance(each, ast.expr) and dotted(each) == name] if whole else []
    new = rewritten(body, statement, dict.fromkeys(nodes, f"{name}.detach()")) if nodes else ""
    return instead(body, statement, new) if new else ""


def _at(level: Level, new: Mapping[int, str]) -> Iterator[tuple[Place, str]]:
    """The statements of a function that are written anew, by their lines."""
    every = {each.lineno: each for each in statements(level.body.node)} if level.body is not None else {}
    return ((level.body.place(every[line]), code) for line, code in new.items()) if level.body is not None else iter(())


def _key(graph: Graph, node: int) -> tuple[int, int]:
    """What tells a node in any graph that has it."""
    return int(graph.columns.ids[node]), int(graph.columns.sequence[node])


def _held(case: Case, level: Level, joints: set[tuple[int, int]]) -> str | None:
    """A variable that holds one of the shared results: of this function's if it can be, else of one around it."""
    nodes = {i for i, key in enumerate(case.graph.identities) if key in joints}
    names = [(level, name) for name in case.ancestors(level)]
    names += [(each, name) for each in case.failure.users for name in each.variables if not name.startswith("_")]
    return next((name for at, name in names if nodes & set(made_in(case.graph, at.value(name)))), None)


def _steps_elsewhere(pair: _Pair) -> bool:
    """Whether an optimizer steps between the two backwards that trains nothing of what they share."""
    return next((step.trained.isdisjoint(pair.leaves) for step in pair.trained), False)


def _is_for_another(pair: _Pair) -> bool:
    """Whether what they share is trained by the step between the two backwards, and the step after the second trains
    nothing of it, but something else that this loss depends on."""
    every = {id(leaf.tensor()) for leaf in pair.graph.leaves}
    if all(step.trained.isdisjoint(pair.leaves) for step in pair.trained):
        return False
    last = max(pair.place.position, pair.level.place.position)
    after = (step.trained for step in steps_in(pair.level) if step.place.position > last and step.trained)
    return next((trained.isdisjoint(pair.leaves) and bool(every & trained) for trained in after), False)


def _trains_a_part(pair: _Pair) -> Step | None:
    """The step between the two backwards that trains some of what they share, if another optimizer trains the rest."""
    for step in pair.trained:
        rest = pair.leaves - step.trained
        if len(rest) < len(pair.leaves) and any(rest & other.trained for other in steps_in(pair.level)):
            return step
    return None

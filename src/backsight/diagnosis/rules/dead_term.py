"""BS121: a term of the loss that trains nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from backsight.diagnosis.evidence.constants import derivatives, renewed, summands
from backsight.diagnosis.evidence.cuts import detached_whole, ends, measures_accuracy, undoing, where
from backsight.diagnosis.evidence.mistaken import mistaken
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.story.holders import below
from backsight.tracing import Met, Severed


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
                shown(_place(beside), ends(beside))
                if beside is not None and _place(beside) != met.line.place
                else None,
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
    fix = f"{undoing(cut)}; or, if you only want to log it, leave it out of the loss."
    if measures_accuracy(cut):
        fix = "An accuracy has no gradient: leave the term out of the loss, or log it."
    return Finding(
        "BS121",
        "warning",
        title,
        (shown(place, ends(cut)), used),
        fix,
        source=str(place),
        nodes=(node,),
    )


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
                shown(taken.computed, f"computes `{taken.unused}`, of the same shape, which nothing reads."),
                shown(met.line.place, "adds the constant."),
            ),
            f"Use {taken.unused} in place of {taken.read}: {taken.mended}.",
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
    return next((cut for cut, _, made in met.cuts if cut.by in ways and cut.line and made > scene.began), None)


def _cut(scene: Scene, met: Met) -> Severed | None:
    """Return what cuts an operand off in this very step from leaves that the loss reaches, if that is not meant.

    Who adds `term.detach()` knows.
    """
    found = next((each for each in met.cuts if each[0].by != "frozen"), None)
    if found is None:
        return None
    cut, leaves, made = found
    meant = cut.by in ("detach", "data") and (met.term < 0 or (cut.line and cut.line.place == met.line.place))
    reached = scene.reached()
    trained = any((leaf := ref()) is not None and id(leaf) in reached for ref in leaves)
    return cut if cut.line is not None and made > scene.began and trained and not meant else None

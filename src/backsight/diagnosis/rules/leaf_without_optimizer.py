"""BS101: a leaf collects gradients that no optimizer will ever use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.evidence.wanted import gradient_is_wanted
from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, listed, shaped
from backsight.tape import Leaf, parameters_in
from backsight.tracing.steps import parameters


@rule("BS101")
def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]:
    """A leaf of the loss requires grad, optimizers were found, and none of them holds it.

    A leaf whose gradient the program itself wants is a note, and so are the parameters of models through which an
    input is optimised: an image, a perturbation, a latent code.
    """
    if not any(leaf.owner for leaf in scene.graph.leaves):
        return  # nothing in this graph is optimised by anything we found: say nothing rather than everything
    alone = [leaf for leaf in scene.graph.leaves if not leaf.owner and leaf.kind != "overwritten"]
    of_models = [leaf for leaf in alone if leaf.kind == "parameter"]
    if of_models:
        kept = _only_passed_through(scene, of_models)
        yield _finding(scene, of_models, "note" if kept else "warning", kept)
    for leaf in alone:
        if leaf.kind != "parameter":
            wanted = gradient_is_wanted(scene, leaf)
            yield _finding(scene, [leaf], "note" if wanted else "warning", wanted)


def _finding(scene: Scene, leaves: Sequence[Leaf], severity: Severity, wanted: str) -> Finding:
    optimizers = listed(list(scene.optimizers))
    label = leaves[0].label
    more = f" and {len(leaves) - 1} more" if len(leaves) > 1 else ""
    one = len(leaves) == 1
    title = f"{label}{more} {'requires' if one else 'require'} a gradient, but no optimizer will update "
    if one:
        leaf = leaves[0]
        what = f"It is a leaf of this loss (shape {shaped(leaf.shape)}), reached by {counted(leaf.uses, 'edge')}, and "
    else:
        what = f"They are leaves of this loss ({listed([leaf.label for leaf in leaves], 4)}), and "
    return Finding(
        "BS101",
        severity,
        title + ("it." if one else "them."),
        (f"{what}not among the parameters of {optimizers}.", *([wanted] if wanted else [])),
        _fix(scene, leaves, wanted),
        nodes=tuple(leaf.node for leaf in leaves),
    )


def _only_passed_through(scene: Scene, parameter_leaves: Sequence[Leaf]) -> str:
    """Say that the optimizers hold nothing but what goes into the models; empty if they hold a parameter of one."""
    held = {id(p) for optimizer in scene.optimizers.values() for p in parameters(optimizer)}
    own = {id(p) for model in scene.models.values() for p in parameters_in(model)}
    if held & own or not {id(leaf.tensor()) for leaf in parameter_leaves} <= own:
        return ""
    owned = [leaf for leaf in scene.graph.leaves if leaf.owner]
    return (
        f"Only {listed([leaf.label for leaf in owned], 3)} is optimised here, and no parameter of "
        f"{listed(list(scene.models), 3)}."
    )


def _fix(scene: Scene, leaves: Sequence[Leaf], wanted: str) -> str:
    if wanted and leaves[0].kind == "parameter":
        return (
            f"Nothing to do if {listed(list(scene.models), 3)} is to stay as it is: requires_grad_(False) on it saves "
            "the time and memory for its gradients."
        )
    if wanted:
        return "Nothing to do if only its gradient is wanted; else add it to the parameters of an optimizer."
    unseen = _in_plain_container(scene, leaves)
    if unseen:
        return (
            f"Make {unseen} an nn.ModuleList, nn.ModuleDict or nn.ParameterList: of a plain list or dict, "
            f"{unseen.partition('.')[0]}.parameters() does not see what is inside."
        )
    one, first = len(leaves) == 1, next(iter(scene.optimizers))
    left = _left_behind(scene, leaves[0])
    if left:
        optimizer, number = left
        return (
            f"Make {optimizer} after the last module is replaced: it holds {counted(number, 'parameter')} that nothing "
            f"else holds any more, and not {'this one' if one else 'these'}."
        )
    return (
        f"Add {'it' if one else 'them'} to {first} if {'it is' if one else 'they are'} to be learnt, or disable "
        f"{'its gradient' if one else 'their gradients'} with requires_grad_(False)."
    )


def _left_behind(scene: Scene, leaf: Leaf) -> tuple[str, int] | None:
    """The optimizer of the rest of the leaf's model, and how many of its parameters nothing else holds any more.

    None if there are none: the leaf has taken the place of others only if those are left behind.
    """
    model, _, inner = leaf.name.partition(".")
    reached = scene.reached()
    owners = {each.owner for each in scene.graph.leaves if each.name.startswith(f"{model}.")}
    for name, optimizer in scene.involved().items() if inner else ():
        if name not in owners:
            continue
        lost = [p for p in parameters(optimizer) if p.requires_grad and id(p) not in reached]
        number = sum(".param_groups[" in path for path in scene.names(lost))
        if number:
            return name, number
    return None


def _in_plain_container(scene: Scene, leaves: Sequence[Leaf]) -> str:
    """The attribute of a model that holds all of the leaves in a plain list or dict, `net.layers`; empty if none does.

    What a model has registered is named without brackets: `net.layers.0.weight`.
    """
    holders = {leaf.name.partition("[")[0] if "[" in leaf.name else "" for leaf in leaves}
    holder = holders.pop()
    return holder if not holders and "." in holder and holder.partition(".")[0] in scene.models else ""

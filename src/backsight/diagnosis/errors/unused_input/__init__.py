"""BS204: a gradient was asked for with respect to a tensor that the output does not depend on."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from backsight.diagnosis.errors.gradient_call import gradient_call
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.errors.unused_input.again import written_again
from backsight.diagnosis.errors.unused_input.allowed import allowed
from backsight.diagnosis.errors.unused_input.anew import made_anew
from backsight.diagnosis.errors.unused_input.beside import made_beside
from backsight.diagnosis.errors.unused_input.case import Unused, computed, is_in
from backsight.diagnosis.errors.unused_input.copies import (
    another_model,
    ignored,
    of_a_deepcopy,
    of_copies,
    rebound_in_loop,
)
from backsight.diagnosis.errors.unused_input.late import (
    computed_before_loop,
    enabled_late,
    enabling,
    entry_enabled_late,
    replaced,
)
from backsight.diagnosis.evidence.idle import left_idle
from backsight.diagnosis.evidence.spoken import called, differentiated, names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, listed, shown
from backsight.snapshot import survey
from backsight.source import statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, statements
from backsight.source.edits import on_line, put_at, remove, write
from backsight.source.rewriting import rewritten
from backsight.story.behind import comes_of
from backsight.story.cut_fixes import mended
from backsight.story.cuts import cuts, met_in, why
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.handed import handed
from backsight.story.holders import results_in
from backsight.story.trained import trained
from backsight.tape import Graph
from backsight.text import as_code

_REDUCED = re.compile(r"\.(sum|mean)\(\)$|\.requires_grad_\((True)?\)$")


@explains("BS204", r"(?:at index (?P<index>\d+) )?appears to not have been used in the graph")
def unused_input(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the inputs that the output does not depend on, and say what stands in their place."""
    roots = [root for root in failure.roots if getattr(root, "requires_grad", True)]
    graph = survey(tuple(roots), frames=failure.frames).graph if roots else None
    found = _unused(failure, graph) if graph else []
    if graph is None or not found:
        return (constant(failure, graph, match) if graph else None) or unlocated(
            failure,
            "The code requests a gradient with respect to a tensor that the output does not depend on.",
            "asks for the gradient.",
            "Compute the output from that tensor, or leave the tensor out. If the gradient may be missing, "
            "allow_unused=True returns None for it.",
        )
    tensors, names = zip(*found, strict=True)
    output = _REDUCED.sub("", called(failure, roots[0])) or "the output"
    known = handed(failure, failure.user.value(output)) if failure.user and output.isidentifier() else None
    output = known.name if known and known.given else output
    case = Unused(failure, graph, output, tensors, names)
    return next(finding for clue in CLUES if (finding := clue(case)) is not None)


def _unused(failure: Failure, graph: Graph) -> list[tuple[torch.Tensor, str]]:
    """The inputs that no path of the graph leads to, with their names."""
    written = differentiated(failure)
    if len(written) != len(failure.inputs):  # parameters, or a list made elsewhere
        written = names_of(failure, failure.inputs)
    every = zip(failure.inputs, written, strict=True)
    bare = [(t, name) for t, name in every if isinstance(t, torch.Tensor) and not is_in(graph, t)]
    outer = {id(t): known.name for t, _ in bare if (known := handed(failure, t)) and known.given}
    return [(t, outer.get(id(t), name) or described(t)) for t, name in bare]


def cut_off(case: Unused) -> Finding | None:
    """The input takes part by its values only: it was detached on the way, or nothing was recorded."""
    read = ((each, None) for each in cuts(case.failure, trained(case.failure), of=case.tensors))
    for cut, used in (*met_in(case.graph, case.tensors), *read):
        place, made = cut.cut.place, statement_at(cut.section.body, *cut.cut.place.position)
        values = [cut.section.value(name) for name in bound(made)] if made is not None else []
        # What gives the variable its value, `x = x.detach().requires_grad_()`, and may not have run yet, is no cut.
        if place == case.at or any(value is tensor for value in values for tensor in case.tensors):
            continue
        one = [each for each in case.tensors if used is None and comes_of(case.failure, cut.behind, cut.read, [each])]
        pairs = zip(case.tensors, case.names, strict=True)
        names = listed([name for tensor, name in pairs if not one or any(tensor is each for each in one)])
        is_gradient = cut.cut.kind == "gradient"
        title = f"{case.output} is computed from detached values of {names}: {cut.cut.expression} detaches it."
        does, asking = why(cut.cut), f"{case.name}.requires_grad_()"
        if is_gradient:
            title = f"{case.output} does not depend on {names}: it is computed with a gradient that has no graph."
            does = f"takes a gradient that depends on {names}. Without create_graph=True, it is a constant"
        own = enabling(case.body, case.name) if case.body and case.body.file == place.file else ()
        late = next((each.line for each in own if each.line > place.line), None)
        above = f" And {put_at(asking, 'above', place)}: on line {late} it is too late."
        return explanation(
            title,
            (
                shown(place, f"{does}.", "read" if used is None and is_gradient else None),
                shown(used, "computes with it.") if used and used != place else None,
                case.asked,
            ),
            f"{mended(cut).edit}.{above if late else ''} {_HIDES}",
            source=place,
            exact=used is not None or not is_gradient,
        )
    return None


def copied(case: Unused) -> Finding | None:
    """What is computed from the input was copied into weights, by its values: `model.load_state_dict(adapted)`."""
    level, body, made = case.failure.user, case.body, case.making
    every = [(each, call) for each in statements(body) for call in calls_in(each)]
    for statement, call in every:
        receiver, method = callee(call)
        is_copy = method in ("load_state_dict", "copy_") and receiver is not None and call.args
        if level is None or body is None or receiver is None or not is_copy or statement.lineno >= level.line:
            continue
        given = tuple(results_in(value_of(level, call.args[0])))
        if not given or not any(is_in(survey(given).graph, each) for each in case.tensors):
            continue
        place, values, model = body.place(statement), body.text(call.args[0]), body.text(receiver)
        uses_it = (each for each in calls_in(made) if body.text(each.func) == model and not each.keywords)
        use = next(uses_it, None) if method == "load_state_dict" else None
        fix = f"Compute {case.output} from {values} itself, in place of {model}."
        if use and made:
            called = f"torch.func.functional_call({model}, {values}, ({', '.join(map(body.text, use.args))},))"
            new = write(body.place(made), rewritten(body, made, {use: called}))
            fix = f"Use {values} itself: {called} instead of {body.text(use)}{new}, and no {method}(){remove(place)}."
        return explanation(
            f"{case.output} does not depend on {case.name}: {method}() copies the values of {values} into "
            f"{model}, without their graph.",
            (shown(place, f"copies values that were computed from {case.name}."), *computed(case), case.asked),
            fix,
            source=place,
        )
    return None


def takes_no_part(case: Unused) -> Finding:
    """Nothing on the way to the output reads the input."""
    one, total, names = len(case.names) == 1, len(case.failure.inputs), listed(case.names)
    again, idle = written_again(case), left_idle(case.failure, case.tensors)
    instead = "" if again or idle is None else idle.fix
    allows = "" if again or instead else allowed(case)
    made = case.caller[1] if case.caller is not None else case.made
    unread = f"{names if one else 'they'} {'is' if one else 'are'} not used to compute it"
    hides = (
        "If a gradient may be missing, allow_unused=True returns None for it." if len(case.names) < total else _HIDES
    )
    without = f"Compute {case.output} from {names} too, or leave {names if one else 'them'} out of the inputs. {hides}"
    return explanation(
        f"{case.output} does not depend on {names}: {unread if again or instead else 'its graph does not lead there'}.",
        (
            *(again.evidence if again else idle.evidence if idle else ()),
            *computed(case),
            f"{len(case.names)} of the {total} requested inputs are not in the graph." if total > 4 else None,
            case.asked,
        ),
        again.fix if again else f"{instead} {_HIDES}" if instead else allows or without,
        source=(idle.place if idle and instead else made if not allows else None) or case.failure.source,
    )


_HIDES = "allow_unused=True would only return None."


# The output is a gradient whose own derivative is zero.


def constant(failure: Failure, graph: Graph, match: re.Match[str]) -> Finding | None:
    """Say that the second derivative is zero, which PyTorch reports as missing; None where no operation of the graph
    has differentiated another."""
    index = match["index"]
    if index is None or not any(node.op.endswith("Backward") for node in graph.nodes):
        return None
    name = as_code(names_of(failure, [failure.inputs[int(index)]])[0]) or "one of the inputs"
    output, call = called(failure, failure.roots[0]), gradient_call(failure.user)
    new = call.flagged("materialize_grads") if call is not None else ""
    zeros = on_line(call.place, new) if call is not None and new else "materialize_grads=True"
    return explanation(
        f"{output} is a gradient that does not change with {name}: its own derivative is zero.",
        (
            *failing(failure, "asks for that derivative."),
            f"What {output} is the gradient of is linear in {name}: no activation or power follows it.",
        ),
        f"If zero is the right answer, let PyTorch return zeros: {zeros}. If it should be curved, put smooth "
        "activations such as nn.Tanh behind it.",
        source=failure.source,
    )


_GRADIENT = re.compile(r"\bgrad\(")


def is_linear(case: Unused) -> Finding | None:
    """The output is itself a gradient, and the first derivative does not depend on the input."""
    place, names = case.made, listed(case.names)
    if place is None or not _GRADIENT.search(case.output if place == case.at else place.text):
        return None
    return explanation(
        f"{case.output} is a derivative that does not depend on {names}: its own derivative is zero.",
        (
            shown(place, "takes the first derivative.", "read"),
            case.asked,
            f"{case.output} does not change with {names}: only linear operations lie between.",
        ),
        "If the function should be curved, put smooth activations such as nn.Tanh between the layers. If zero is "
        "the right answer, allow_unused=True with materialize_grads=True returns zeros.",
        source=case.failure.source,
        exact=False,
    )


CLUES: tuple[Callable[[Unused], Finding | None], ...] = (
    computed_before_loop,
    made_anew,
    rebound_in_loop,
    made_beside,
    replaced,
    of_copies,
    cut_off,
    is_linear,
    enabled_late,
    ignored,
    of_a_deepcopy,
    another_model,
    copied,
    entry_enabled_late,
    takes_no_part,
)

"""Remedies for what is sent to another process, which gets values alone: a graph stays where it was recorded."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.copied import detaching, results_kept
from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import shown, sure_if
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import calls_of
from backsight.source.body import callee, expressions
from backsight.source.rewriting import rewritten
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor
from backsight.text import as_code


@remedy(r"refusing to serialize non-leaf tensor")
def _sent(found: Refusal, match: Match) -> Remedy | None:
    """A result among what a process is given: by itself, or kept by a model."""
    tensor, level, body = found.below[-1].variables.get("tensor"), found.level, found.level.body
    if not is_tensor(tensor) or body is None or level.statement is None:
        return None
    name, line = names_of(found.failure, [tensor])[0], level.statement.lineno
    kept = results_kept(level, root := name.partition(".")[0])
    attribute = name.rpartition(".")[2]
    if "." in name and kept:
        by = next(_computing(found, tensor, attribute), "")
        made = [body.place(each) for body, each, call in calls_of(*user_files(found.failure)) if callee(call)[1] == by]
        says = f"lets {by}() compute {attribute} before each forward pass: it is not a leaf."
        then = f": each forward pass computes {attribute} anew" if by else ", if no loss is computed from it any more"
        return Remedy(
            f"A process is sent values, without a graph. Put `{detaching(root, kept)}` above line {line}{then}.",
            tuple(shown(each, says, sure_if(len(made) == 1)) for each in made[:2]),
            made[0] if len(made) == 1 else None,
        )
    reads = {node: f"{name}.detach()" for node in expressions(level.statement) if name and body.text(node) == name}
    sent = rewritten(body, level.statement, reads) if reads else ""
    how = f"on line {line}, write `{sent}`" if sent else f"send {as_code(name) or 'the tensor'}.detach() in its place"
    return Remedy(f"A process is sent values, without a graph: {how}. Gradients do not come back from there.")


def _computing(found: Refusal, tensor: torch.Tensor, attribute: str) -> Iterator[str]:
    """The function of torch.nn.utils whose hook computes an attribute of a module before each of its passes."""
    for module, _ in search((), frames=found.failure.frames, collect=(torch.nn.Module,)).found:
        held = namespace(module) or {} if is_module(module) else {}
        hooks = held.get("_forward_pre_hooks")
        if held.get(attribute) is tensor and isinstance(hooks, dict):
            kinds = (type(each).__module__ for each in hooks.values())
            yield from (kind.rpartition(".")[2] for kind in kinds if kind.startswith("torch.nn.utils."))

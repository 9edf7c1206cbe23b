"""A module made with `inplace=True` changed the saved tensor, where no statement of the user's shows it."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.errors.modified.case import Case, said_by
from backsight.diagnosis.errors.modified.spelling import spoken, why_saved
from backsight.diagnosis.evidence.written import works_in_place
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.naming.plain import class_name
from backsight.tape import modules_in
from backsight.tape.ops import op_name


def changed_by_module(case: Case) -> Finding | None:
    """A module inside of the models works in place and runs the operation that changed the tensor."""
    writers = _writers(case)
    found = [(path, module) for path, module in _in_place(case) if _runs(module, writers)]
    near = [(path, module) for path, module in found if _is_near(path, case.module)]
    found = near or found
    if not found:
        return None
    paths = [path for path, _ in found]
    kind = class_name(type(found[0][1]))
    who = paths[0] if len(paths) == 1 else f"one of {listed(paths, 4)}"
    reason = why_saved(case.operation, case.is_result)
    lines = [
        f"{case.node.name}{f' in {case.module}' if case.module else ''} saved its "
        f"{'result' if case.is_result else 'input'}, {case.description}: {reason}.",
        f"{who} writes over the tensor that it is given.",
    ]
    if case.failure.user:
        lines.append(shown(case.failure.user.place, f"needs the original value; {case.since}."))
    return Finding(
        "BS202",
        "error",
        f"{who}, a {kind} made with inplace=True, changed what {spoken(case.operation)} had saved for backward.",
        tuple(lines),
        f"Make it without inplace=True: nn.{kind}().",
        source=case.failure.source,
        exact=len(paths) == 1,
    )


def _writers(case: Case) -> set[str]:
    """The operations that may have changed the tensor: by the message, or what was computed from the saved result."""
    said = said_by(case.failure.message)
    if said and said.writer and not case.is_result:
        return {said.writer.lower()}
    consumers = (node for node, edge in case.survey.graph.edges if edge.node.index == case.node.index)
    return {op_name(node.name).lower() for node in consumers}


def _in_place(case: Case) -> Iterator[tuple[str, object]]:
    every = (each for name, model in case.survey.models.items() for each in modules_in(model, name))
    return ((path, module) for path, module in every if works_in_place(module))


def _runs(module: object, writers: set[str]) -> bool:
    kind = class_name(type(module)).lower()
    also = {"dropout": {"mul", "nativedropout"}, "relu6": {"hardtanh"}}.get(kind, set())
    return bool(({kind} | also) & writers)


def _is_near(path: str, module: str) -> bool:
    """Whether the module stands beside the one that saved: both in the same container."""
    return bool(module) and path.rpartition(".")[0] in (module.rpartition(".")[0], module)

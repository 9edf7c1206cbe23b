"""Where the second run of a checkpointed function went another way than the first: the first tensor that differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis._torch import CHECKPOINT_FILE, recomputed, saved_as
from backsight.diagnosis.wording import shaped
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient
from backsight.tape import no_torch_function, sequence_number
from backsight.tape.capture import root_edges
from backsight.tape.rows import dtype_name
from backsight.tape.walk import walk
from backsight.tracing import Line, current


@dataclass(frozen=True)
class Difference:
    """The first tensor that the two runs did not save alike.

    position: its number, from 0, as PyTorch counts; first: what the first run saved, `float32 of shape 2×5`; second:
    what the second run saved there, empty if it saved no more. operation and field: the node that saved it in the first
    run, and as what; line: where that ran, if a watch has noted it.
    """

    position: int
    first: str
    second: str
    operation: str = ""
    field: str = ""
    line: Line | None = None

    def __str__(self) -> str:
        of = f" (`{self.field}` of {self.operation})" if self.operation else ""
        then = f"the second saved {self.second}" if self.second else "the second saved none"
        return f"the two runs diverge at saved tensor {self.position}: the first saved {self.first}{of}, {then}."


def first_difference(failure: Failure) -> Difference | None:
    """Compare what the two runs have saved, tensor by tensor; None if all that both have is alike, or not known."""
    levels = (each for each in failure.levels if each.frame.f_code.co_filename == CHECKPOINT_FILE)
    found = next((pair for each in levels if (pair := recomputed(dict(each.variables))) is not None), None)
    if found is None:
        return None
    frame, run = found
    second: Mapping[Any, Any] = frame.recomputed.get(run, {})
    for position, (reference, metadata) in enumerate(zip(frame.weak_holders, frame.x_metadatas, strict=False)):
        holder = reference()
        handle = holder.handles.get(run) if holder is not None else None
        tensor = second.get(handle) if handle is not None else None
        if holder is not None and (tensor is None or not _is_alike(metadata, tensor)):
            then = _described(_metadata(tensor)) if tensor is not None else ""
            return _at(failure, holder, Difference(position, _described(metadata), then))
    return None


def _at(failure: Failure, holder: object, found: Difference) -> Difference:
    """Find the node that saved it."""
    with no_torch_function():
        roots = [root for root in failure.roots if needs_gradient(root)]
        for node in walk([node for node, _ in root_edges(roots)]).nodes if roots else ():
            field = saved_as(node, holder)
            if field:
                watch = current()
                line = watch.line_of(sequence_number(node)) if watch else None
                return Difference(found.position, found.first, found.second, type(node).__name__, field, line)
    return found


def _metadata(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _is_alike(metadata: Any, tensor: torch.Tensor) -> bool:
    return type(metadata) is not dict or all(metadata.get(k) == v for k, v in _metadata(tensor).items())


def _described(metadata: Any) -> str:
    if type(metadata) is not dict or not {"shape", "dtype"} <= metadata.keys():
        return "a tensor"
    kind = dtype_name(metadata["dtype"])
    return f"{'an' if kind.startswith('int') else 'a'} {kind} tensor of shape {shaped(metadata['shape'])}"

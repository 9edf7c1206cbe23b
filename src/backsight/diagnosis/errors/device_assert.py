"""BS230: a kernel of the device stopped at an assertion: an index outside of what it indexes, as a rule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source.body import callee
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import calls_in_files

_MOST = 4
_INDEXING = {
    "cross_entropy": "takes targets from 0 to the number of classes - 1, or ignore_index.",
    "nll_loss": "takes targets from 0 to the number of classes - 1, or ignore_index.",
    "one_hot": "takes indices from 0 to num_classes - 1.",
    "gather": "takes indices from 0 to the size of that dimension - 1.",
    "index_select": "takes indices from 0 to the size of that dimension - 1.",
    "scatter": "takes indices from 0 to the size of that dimension - 1.",
    "scatter_": "takes indices from 0 to the size of that dimension - 1.",
    "scatter_add_": "takes indices from 0 to the size of that dimension - 1.",
    "binary_cross_entropy": "takes values from 0 to 1.",
}


@explains("BS230", r"device-side assert triggered")
def device_assert(failure: Failure, match: re.Match[str]) -> Finding:
    """Say that the error may be older than its line, and which operations of the program use indices."""
    script = (each.frame for each in failure.users if each.frame.f_globals.get("__name__") == "__main__")
    file = next((frame.f_code.co_filename for frame in script), "train.py")
    return explanation(
        "A kernel of the GPU stopped at an assertion, as for an index that is out of range. The line that reports it "
        "may come later than the cause.",
        (*failing(failure, "is where it was noticed: the GPU runs behind the program."), *_suspects(failure)),
        "Run it once on the CPU, where the same operation raises an IndexError at its own line. Or wait for each "
        f"kernel: CUDA_LAUNCH_BLOCKING=1 backsight run {shlex.quote(Path(file).name)}",
        source=failure.source,
        exact=False,
    )


def _suspects(failure: Failure) -> list[Fact]:
    """The embeddings with the indices that they take, and the other operations of the program that take some.

    No value is read: after such an error every operation of the device fails.
    """
    found = search((), frames=failure.frames, collect=(torch.nn.Embedding, torch.nn.EmbeddingBag)).found
    every: list[Fact] = [
        f"{name.path} takes indices from 0 to {each.num_embeddings - 1}."
        for each, name in found
        if isinstance(each, torch.nn.Embedding | torch.nn.EmbeddingBag)
    ]
    return [*every, *_operations(failure)][:_MOST]


def _operations(failure: Failure) -> Iterator[Fact]:
    for body, statement, call in calls_in_files(failure):
        module = next((v for each in failure.users if (v := value_of(each, call.func)) is not None), None)
        loss = isinstance(module, torch.nn.CrossEntropyLoss | torch.nn.NLLLoss)
        says = _INDEXING.get("cross_entropy" if loss else callee(call)[1])
        if says is not None:
            yield shown(body.place(statement), says, "read")

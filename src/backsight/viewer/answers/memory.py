"""The memory of a step: bytes by kind over its time, the peak in words, and what was alive when."""

from __future__ import annotations

from backsight.memory import StepMemory
from backsight.memory.page import timeline
from backsight.memory.table import about
from backsight.runs import Run
from backsight.tape.cells import harmless
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked, question


@question("memory")
def memory(run: Run, asked: Asked) -> Answer:
    """Return what the page draws, or nothing where no step was measured."""
    stored = run.stored_memory()
    if stored is None:
        return {"step": None}
    measured: StepMemory = stored.value
    where, _, held = spelt_out(str(measured.at_peak)).partition(": ")
    shown = plain(timeline(measured.history))
    shown["blocks"] = [[spelt_out(each) if isinstance(each, str) else each for each in row] for row in shown["blocks"]]
    return {"step": stored.step, "where": where, "held": held.split("; "), "about": spelt_out(about(measured)), **shown}


def spelt_out(text: str) -> str:
    """Return text whose control and direction characters are spelt out, so that none turns a sentence around."""
    return text if text.isprintable() else "".join(map(harmless, text))

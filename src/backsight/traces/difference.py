"""`Difference`: what `diff` returns: findings, the folded steps, and how the difference grows, as data and as text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from backsight.findings import Finding
from backsight.text import counted, inert, listed
from backsight.traces.agreement import Agreement, Departure
from backsight.traces.growth import Point
from backsight.traces.judging import Class, Judged
from backsight.traces.picture import Picture
from backsight.traces.records import Variables


@dataclass(frozen=True)
class Parted:
    """What was found in one step.

    agree, inherited: how many operations agree to the last bit, and how many differ as what they are given does.
    only_a, only_b: how many have no counterpart.
    losses: in A and in B, where they are known.
    picture: of the step in which the trainings diverge, and those before.
    """

    step: int
    agree: int
    inherited: int
    only_a: int
    only_b: int
    origins: tuple[Judged, ...]
    points: tuple[Point, ...]
    losses: tuple[float | None, float | None] = (None, None)
    renamed: tuple[tuple[str, str], ...] = ()
    unended: str = ""
    """In which of the two the step did not end: "A", "B" or "A and B"."""
    picture: Picture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Difference:
    """Where two trainings diverge.

    ```python
    difference = bs.diff("traces/old", "traces/new")
    difference.cls          # "same", "noise", "precision" or "semantics"
    difference.first        # the finding of the operation to look at first; None if nothing differs
    print(difference)
    ```

    steps: what was found, by step; `findings`: the same in sentences, the gravest class first; `notes`: what could not
    be compared; `agreement`: how long both agree by the summaries of all steps, where both have them.
    """

    a: str
    b: str
    steps: tuple[Parted, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    agreement: Agreement | None = None
    called: tuple[Variables, Variables] = (Variables(), Variables())
    """What both programs call their models."""

    @property
    def cls(self) -> Class | Literal["same"]:
        """The gravest class there is: "semantics" before "precision" before "noise"; "same" if nothing differs."""
        classes = {each.cls for step in self.steps for each in step.origins}
        ranked: tuple[Class, ...] = ("semantics", "precision", "noise")
        return next((each for each in ranked if each in classes), "same")

    @property
    def same(self) -> bool:
        """Whether all that both traces have agrees to the last bit."""
        return not any(step.origins for step in self.steps)

    @property
    def uncompared(self) -> str:
        """Why nothing can be said of the updates, where all that was compared agrees; empty where they were compared.

        A step that ended in only one of two trainings was compared as far as its gradients at most.
        """
        if self.cls not in ("same", "noise") or not self.steps:
            return ""
        found = next((each for each in self.steps if each.unended in ("A", "B")), None)
        if found is None:
            return ""
        return f"step {found.step} of {found.unended} did not end, so its update was not compared"

    @property
    def untraced(self) -> tuple[Departure, ...]:
        """Where the trainings part in steps that were not traced, while those that were do not tell why."""
        if self.agreement is None or self.cls not in ("same", "noise"):
            return ()
        traced = {each.step for each in self.steps}
        beyond = self.agreement.beyond
        if beyond is not None and beyond.step in traced:  # then the first difference was rounding
            return ()
        return tuple(each for each in self.agreement.departures if each.step not in traced)

    @property
    def origin(self) -> Judged | None:
        """Where the trainings diverge: the first origin of the gravest class."""
        return next((each for step in self.steps for each in step.origins if each.cls == self.cls), None)

    @property
    def first(self) -> Finding | None:
        """The finding about that."""
        return self.findings[0] if self.findings else None

    def text(self) -> str:
        """Return it as text: the findings, what is folded, and how the difference grows."""
        lines = [f"backsight: {headline(self)}", ""]
        for finding in self.findings:
            lines += [str(finding).rstrip(), ""]
        for step in self.steps:
            lines += [*folded(step), ""]
        lines += legend(self)
        lines += [f"note: {note}" for note in self.notes]
        return inert("\n".join(lines).rstrip()) + "\n"

    def to_json(self) -> str:
        """Return it as a line of JSON, in the shape of docs/json.md."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "a": self.a,
            "b": self.b,
            "class": self.cls,
            "findings": [each.to_dict() for each in self.findings],
            "steps": [_step(each, self.called[0]) for each in self.steps],
            "notes": list(self.notes),
            "agreement": None if self.agreement is None else _agreement(self.agreement),
        }

    def html(self) -> str:
        """Return it as a page of its own: findings, both lines side by side, and the modules coloured by distance."""
        from backsight.traces.page import page_of

        return page_of(self)

    def save(self, path: str) -> Path:
        """Write it into a file: as HTML, JSON or text, as the ending of its name says.

        Raises:
            ValueError: if the name ends otherwise.
        """
        kinds = {".html": self.html, ".json": self.to_json, ".txt": self.text}
        file = Path(path)
        if file.suffix not in kinds:
            raise ValueError(f"path must end in .html, .json or .txt, not {str(path)!r}.")
        file.write_text(kinds[file.suffix](), encoding="utf-8")
        return file

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Difference {self.cls}, {len(self.steps)} steps, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text())


SAID = {
    "semantics": "they compute different things",
    "precision": "they compute in different precision",
    "noise": "only by rounding",
}
"""What each class means; its name is for programs."""

LEGEND = "bars: relative difference of each module or tensor; · none, ▁ up to 1e-07, █ 0.1 and above"


def legend(difference: Difference) -> tuple[str, ...]:
    """Return what the bars mean, if there are any."""
    points = (point for step in difference.steps for point in step.points if point.what != "loss")
    return (LEGEND,) if any(point.relative for point in points) else ()


def headline(difference: Difference) -> str:
    """Return the answer in one line."""
    if not difference.steps:
        return "nothing could be compared"
    if difference.uncompared:
        return f"not compared to the end: {difference.uncompared}"
    if (later := _later(difference)) is not None:
        return later
    steps = f"step {difference.steps[0].step}" if len(difference.steps) == 1 else f"{len(difference.steps)} steps"
    compared = sum(step.agree + step.inherited + len(step.origins) for step in difference.steps)
    if difference.same:
        what = f"{compared:,} operations agree" if compared else "all that both hold agrees"
        return f"no difference in {steps}: {what} to the last bit"
    first = next(step for step in difference.steps if any(each.cls == difference.cls for each in step.origins))
    if difference.cls == "noise":
        return f"the trainings differ only by rounding, from step {first.step} on"
    return f"the trainings diverge in step {first.step}: {SAID[difference.cls]}"


def _later(difference: Difference) -> str | None:
    """Return the answer where the summaries of all steps tell of a step after the first."""
    found = difference.agreement
    if found is None:
        return None
    if difference.untraced:
        parted = difference.untraced[-1]
        return f"{found.agree(parted.step)}; they part at step {parted.step}, which is not traced"
    first = next((each.step for each in difference.steps if difference.cls in {one.cls for one in each.origins}), None)
    if first and found.departures and first >= found.departures[0].step - 1:
        parted_at = "differ by rounding from" if difference.cls == "noise" else "part at"
        told = f"{found.agree(first)}; they {parted_at} step {first}"
        return told + (" on" if difference.cls == "noise" else f": {SAID[difference.cls]}")
    if difference.same and not found.departures:
        traced = [str(each.step) for each in difference.steps]
        only = f", and so do all operations of step{'s' * (len(traced) > 1)} {listed(traced)}" if traced else ""
        return f"no difference in {counted(found.steps, 'step')}: gradients and weights agree to the last bit{only}"
    if difference.cls == "noise" and found.beyond is None:
        return f"the trainings differ only by rounding in {counted(found.steps, 'step')}, from step {first} on"
    return None


def lasting(difference: Difference) -> tuple[str, ...]:
    """Return the notes on where two trainings part, and on what to trace to see why."""
    found = difference.agreement
    if found is None:
        return ()
    told = [f"{found.agree(each.step)}; step {each.step} differs: {each.reason}"
            for each in found.departures if each.step]  # fmt: skip
    if difference.untraced:
        steps = sorted({step for each in difference.untraced for step in (max(0, each.step - 1), each.step)})
        told.append(f"to see why, trace both with `backsight run --trace steps={','.join(map(str, steps))}`")
    if found.ended[0] != found.ended[1]:
        told.append(f"A ended after {counted(found.ended[0], 'step')}, and B after {counted(found.ended[1], 'step')}")
    return tuple(told)


VISIBLE = 1e-5
"""The relative difference of a loss that is seen where it is printed with six digits."""


def in_the_loss(difference: Difference) -> tuple[str, ...]:
    """Return a note on whether rounding can be seen in the loss of the steps that were traced, and from which on."""
    found = {point.step: point.relative for step in difference.steps for point in step.points if point.what == "loss"}
    if difference.cls != "noise" or not any(found.values()) or not all(map(isfinite, found.values())):
        return ()
    seen = next((step for step in sorted(found) if found[step] > VISIBLE), None)
    most = f"the losses of the traced steps differ by at most a relative {max(found.values()):.1e}"
    return (
        f"{most}, too little to show in six digits" if seen is None else f"{most}: it is visible from step {seen} on",
    )


def folded(step: Parted) -> list[str]:
    """Return what else there is to say of a step: what is folded, the losses, and the growth in a few lines."""
    if not any((step.agree, step.inherited, step.only_a, step.only_b)):  # of all ranks together
        lines = [f"step {step.step}: {counted(len(step.points), 'value')} compared"]
        return [*lines, *_grown(step)]
    alone = [f"{count:,} only in {name}" for name, count in (("A", step.only_a), ("B", step.only_b)) if count]
    return [f"step {step.step}: {', '.join([counts(step), *alone])}", *_grown(step)]


def counts(step: Parted) -> str:
    """Return how many operations agree, and how many differ only because of what goes in, if there are such."""
    agree = f"{counted(step.agree, 'operation')} agree{'s' * (step.agree == 1)} to the last bit"
    differ = "differs only because its inputs do" if step.inherited == 1 else "differ only because their inputs do"
    return f"{agree}, {step.inherited:,} {differ}" if step.inherited else agree


def _grown(step: Parted) -> list[str]:
    """Return what is renamed, the losses, and how the difference grows."""
    lines = []
    if step.renamed:
        shown = ", ".join(f"{ours} is {theirs} in B" for ours, theirs in step.renamed[:3])
        more = len(step.renamed) - 3
        lines.append(f"  renamed: {shown}" + (f" and {more:,} more" if more > 0 else ""))
    ours, theirs = step.losses
    if ours is not None and theirs is not None:
        lines.append(f"  loss: {ours:.8g} in A, {theirs:.8g} in B")
    for what, title in (("module", "by module"), ("grad", "gradients"), ("weight", "weights")):
        points = [each for each in step.points if each.what == what]
        if any(each.relative for each in points):
            lines.append(f"  {title}: {curve(points)}")
    return lines


BARS = "▁▂▃▄▅▆▇█"
_WIDEST = 60


def curve(points: list[Point]) -> str:
    """Return the differences as a line of bars by magnitude, with the first and the largest that are not 0."""
    from math import log10

    held = points if len(points) <= _WIDEST else [points[k * len(points) // _WIDEST] for k in range(_WIDEST)]
    bars = "".join(
        "·" if not each.relative else BARS[min(7, max(0, int(8 + log10(min(each.relative, 1.0)))))] for each in held
    )
    first = next(each for each in points if each.relative)
    most = max(points, key=lambda each: each.relative)
    ends = [(most, "the largest")] if most is first else [(first, "the first"), (most, "the largest")]
    told = [f"{shown(each.relative)} in {each.name or 'the model'}, {which}" for each, which in ends]
    return f"{bars} {'; '.join(told)}"


def shown(relative: float) -> str:
    """Return a relative difference in words."""
    return f"{relative:.1e}" if isfinite(relative) else "another shape, or NaN"


def _step(step: Parted, called: Variables) -> dict[str, Any]:
    return {
        "step": step.step,
        "agree": step.agree,
        "inherited": step.inherited,
        "only_a": step.only_a,
        "only_b": step.only_b,
        "losses": [each if each is None or isfinite(each) else None for each in step.losses],
        "renamed": [list(each) for each in step.renamed],
        "origins": [_origin(each, called) for each in step.origins],
        "growth": [{**asdict(each), "relative": _number(each.relative)} for each in step.points],
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    parted = [None if each is None else asdict(each) for each in (found.bits, found.beyond)]
    return {"steps": found.steps, "ended": list(found.ended), "bits": parted[0], "beyond": parted[1],
            "noise": _number(found.noise)}  # fmt: skip


def _origin(judged: Judged, called: Variables) -> dict[str, Any]:
    origin = judged.origin
    first, second = origin.places
    return {
        "class": judged.cls,
        "code": judged.code,
        "kind": origin.kind,
        "phase": origin.phase,
        "op": origin.a.op if origin.a is not None else None,
        "module": called(origin.a.module) if origin.a is not None and origin.a.module else None,
        "a": str(first),
        "b": str(second),
        "relative": _number(origin.apart.relative),
        "ulps": origin.apart.ulps,
        "allowed": _number(origin.allowed),
        "reasons": list(judged.reasons),
    }


def _number(relative: float) -> float | None:
    return relative if isfinite(relative) else None

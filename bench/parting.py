"""What `diff` says of pairs of trainings that differ by one mistake, and of pairs that differ by rounding alone.

    python bench/parting.py [--only WORD] [--tell]

Each mistake of `_mutants.py` is switched on in a small GPT, ResNet, LSTM or U-Net, and the traces of two steps are
compared with those of the model as it should be. Counted are how often the line (or the module, where PyTorch's own
code does it) is named, how often the class is right, and how many pairs that differ by rounding are called a mistake.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from _measure import report, simple_table, verdict
from _mutants import train

import backsight as bs

NAMED, CLASSED = 0.95, 0.9
"""Shares of the mistakes whose place has to be named, and whose class has to be right."""


@dataclass(frozen=True)
class Case:
    """A mistake: in which model, under which name, of which class, and where it has to be found.

    where: the comment on the line, "module NAME", "start KIND", or the name of an operator.
    """

    model: str
    name: str
    where: str = ""
    cls: str = "semantics"
    with_: frozenset[str] = frozenset()


def _cases() -> list[Case]:
    of = {
        "gpt": {
            "no scale": "", "scale by width": "", "mask": "", "softmax dim": "", "no residual": "", "gelu tanh": "",
            "transposed": "", "position": "", "ln eps": "module blocks.0.ln2",
            "dropout p": "module blocks.0.attention.drop",
            "q and k": "module blocks.0.attention", "mask buffer": "start buffer", "init std": "start weight",
            "tied": "module head", "unshifted": "", "data order": "", "seed": "start weight",
            "custom backward": "", "wrong average": "", "loss scale": "", "clipped": "", "lr": "optimizer",
            "betas": "optimizer", "no decay": "optimizer", "adam": "optimizer", "smoothing": "", "fill": "",
        },
        "resnet": {
            "bn eps": "module blocks.0.na", "bn momentum": "module blocks.0.nb", "padding": "module blocks.0.b",
            "no relu": "", "relu before add": "", "leaky": "", "init": "start weight", "zero init": "start weight",
            "stale buffer": "start buffer", "bn eval": "module blocks.1.na", "normalized": "", "max pool": "",
            "flipped": "", "summed": "", "lost momentum": "optimizer", "momentum": "optimizer",
            "nesterov": "optimizer", "frozen": "optimizer",
        },
        "lstm": {
            "forget bias": "start weight", "first state": "", "gate": "", "no tanh": "", "clamped": "",
            "hidden dropout": "", "gate order": "LSTM", "detached": "backward", "carried": "LSTM",
        },
        "unet": {
            "gn eps": "module norm", "groups": "module norm", "nearest": "", "corners": "", "skip scale": "",
            "no skip": "", "concat order": "", "no activation": "", "double sigmoid": "", "mse": "",
            "positive weight": "", "threshold": "",
        },
    }  # fmt: skip
    beside = {"resnet": frozenset({"sgd"}), "wrong average": frozenset({"micro batches"})}
    cases = [
        Case(model, name, where or name, with_=beside.get(name, beside.get(model, frozenset())))
        for model, names in of.items()
        for name, where in names.items()
    ]
    precision = [("gpt", "bf16 mlp", "bf16 mlp"), ("gpt", "autocast", "module blocks.0.attention.qkv"),
                 ("resnet", "bf16 conv", "bf16 conv"), ("unet", "autocast", "module a")]  # fmt: skip
    return cases + [Case(model, name, where, "precision") for model, name, where in precision]


NOISE = [
    *(("gpt", each) for each in ("fused qkv", "sdpa", "manual ln", "manual gelu", "swapped add", "checkpoint")),
    *(("gpt", each) for each in ("micro batches", "manual loss", "threads", "renamed", "foreach")),
    *(("resnet", each) for each in ("swapped add", "channels last", "manual mean", "manual loss", "threads")),
    *(("lstm", each) for each in ("one matmul", "manual loss", "foreach")),
    *(("unet", each) for each in ("manual silu", "manual bce", "threads")),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="only mistakes whose names hold this")
    parser.add_argument("--tell", action="store_true", help="print what is said of each")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.tell)
        cases = [each for each in _cases() if not options.only or options.only in f"{each.model} {each.name}"]
        rows = [(each, *bench.judge(each)) for each in cases]
        noise = [(model, name, bench.noise(model, name)) for model, name in NOISE
                 if not options.only or options.only in f"{model} {name}"]  # fmt: skip
    return _report(rows, noise)


class Bench:
    """Trains pairs, and compares their traces."""

    def __init__(self, folder: Path, tell: bool):
        self._folder, self._tell = folder, tell
        self._plain: dict[tuple[str, frozenset[str]], str] = {}

    def judge(self, case: Case) -> tuple[bool, bool, str]:
        """Return whether the place was named, whether the class is right, and what was said."""
        difference = self._difference(case.model, case.name, case.with_)
        found = difference.origin
        said = difference.first.title if difference.first is not None else "no difference"
        return found is not None and _named(found, case), difference.cls == case.cls, f"{difference.cls}: {said}"

    def noise(self, model: str, name: str) -> str:
        """Return what was said of a pair that differs by rounding, if that is too much."""
        difference = self._difference(model, name, frozenset())
        blamed = difference.cls not in ("same", "noise")
        return f"{difference.cls}: {difference.first.title}" if blamed and difference.first is not None else ""

    def _difference(self, model: str, name: str, with_: frozenset[str]) -> bs.Difference:
        if (model, with_) not in self._plain:
            self._plain[model, with_] = self._trace(model, with_)
        difference = bs.diff(self._plain[model, with_], self._trace(model, with_ | {name}))
        if self._tell:
            print(f"\n===== {model}: {name}\n{difference}")
        return difference

    def _trace(self, model: str, on: frozenset[str]) -> str:
        with bs.trace(self._folder / "trace", steps=(0, 1)) as trace:
            train(model, on, 2)
        return str(trace.path)


def _named(judged: object, case: Case) -> bool:
    """Whether an origin is where the mistake is."""
    origin = judged.origin
    kind, _, name = case.where.partition(" ")
    operations = [each for each in (origin.a, origin.b, *origin.only_a, *origin.only_b) if each is not None]
    if kind == "module" and name:
        return any(each.module == name for each in operations)
    if kind == "start":
        return origin.kind == "start" and origin.names[0].startswith(name)
    if kind in ("optimizer", "backward"):
        return origin.phase == kind
    if kind == "input":
        return origin.kind == "input"
    if kind == "LSTM":
        return any("_mutants.py" in each.place.file and each.place.function == "forward" for each in operations)
    places = [each.text for each in (*origin.places, *(each.place for each in (*origin.only_a, *origin.only_b)))]
    return any(case.where in text.partition("#")[2] for text in places)


def _report(rows: list[tuple[Case, bool, bool, str]], noise: list[tuple[str, str, str]]) -> int:
    table = simple_table("mistake", "named", "class", "said", title="One mistake each")
    for case, named, classed, said in rows:
        table.add_row(f"{case.model}: {case.name}", "yes" if named else "NO", "yes" if classed else "NO", said[:76])
    accused = [each for each in noise if each[2]]
    other = simple_table("another way to compute the same", "accused of", title="Rounding alone")
    for model, name, said in noise:
        other.add_row(f"{model}: {name}", said[:76])
    named, classed = sum(each[1] for each in rows), sum(each[2] for each in rows)
    met = [named >= NAMED * len(rows), classed >= CLASSED * len(rows), not accused]
    said = [
        f"the place is named in {named} of {len(rows)}",
        f"the class is right in {classed} of {len(rows)}",
        f"{len(accused)} of {len(noise)} that differ by rounding are called a mistake",
    ]
    report(table, other, *map(verdict, met, said))
    return int(not all(met))


if __name__ == "__main__":
    raise SystemExit(main())

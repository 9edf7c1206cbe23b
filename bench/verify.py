"""How well `verify` finds wrong backwards, and what it costs, on PyTorch's own database of operators.

    python bench/verify.py [--quick]

Three parts. Every operator of `op_db` is tested as it is: none may be accused. Eight faults are put
into each right backward: how many are found, and is any right one accused? And the time is held against `gradcheck`,
slow and with `fast_mode=True`, sample by sample in turn.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from _measure import GaveUp, report, simple_table, verdict

import backsight as bs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "verification"))

from mutants import FAULTS, score, tallied
from samples import Sample, samples

SCORE, AGAINST_FAST, AGAINST_SLOW = 0.995, 1.3, 20
ROUNDS, LONG = 3, 0.1
"""So often each is timed, in turn, of which the shortest counts; what takes this many seconds is timed once."""

EMPTY = "its inputs hold no elements"
SECONDS = 5
"""A slow gradcheck that takes longer is stopped, and counted with this time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one operator in eight")
    shards = 8 if parser.parse_args().quick else 1
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    met = [_op_db(shards), _mutants(shards), _times(shards)]
    return int(not all(met))


def _op_db(shards: int) -> bool:
    """Test every operator as it is."""
    flagged: Counter[tuple[str, str]] = Counter()
    skipped: Counter[tuple[str, str]] = Counter()
    tested = 0
    for sample in samples(3, 0, shards):
        call, inputs = sample.of_inputs()
        try:
            result = bs.verify(call, *inputs)
        except bs.NothingToVerify:
            continue
        except RuntimeError as error:  # as_strided, of a copy that has less memory behind it
            skipped[sample.name, str(error)] += 1
            continue
        tested += bool(result.checked)
        flagged.update({(sample.name, finding.code) for finding in result})
        skipped.update({(sample.name, each.why) for each in result.skipped})
    accused = [f"accused: {name}, {code} ×{count}" for (name, code), count in sorted(flagged.items())]
    reasons: dict[str, list[str]] = {}
    for (name, why), count in sorted(skipped.items()):
        reasons.setdefault(why, []).append(name if count == 1 else f"{name} ×{count}")
    declined = [f"not tested: {', '.join(names)}: {why}" for why, names in reasons.items() if why != EMPTY]
    declined.append(f"not tested: {sum(n for (_, why), n in skipped.items() if why == EMPTY)} samples: {EMPTY}")
    title = f"Operators of PyTorch as they are: {tested:,} samples tested"
    report(title, "", *accused, *declined, "", verdict(not flagged, f"{len(accused)} operators are accused"), "")
    return not flagged


def _mutants(shards: int) -> bool:
    """Put faults into every operator."""
    tallies = tallied(samples(2, 0, shards))
    table = simple_table(
        "fault", "caught", "missed", "equivalent", "not judged", title="Bugs injected into correct backwards"
    )
    for name in FAULTS:
        each = tallies[name]
        if name != "none":
            table.add_row(name, *map(str, (each.caught, len(each.missed), each.equivalent, each.declined)))
    missed = Counter(name for fault, each in tallies.items() if fault != "none" for name in each.missed)
    accused = tallies["none"].caught
    clean = tallies["none"].equivalent
    whole = score(tallies)
    report(
        table,
        f"missed: {', '.join(f'{name} ×{count}' for name, count in missed.items()) or 'none'}",
        verdict(whole >= SCORE, f"{whole:.2%} of the faults are caught (at least {SCORE:.1%})"),
        verdict(not accused, f"{accused} of {clean + accused:,} right backwards are accused"),
        "",
    )
    return whole >= SCORE and not accused


def _times(shards: int) -> bool:
    """Time verify and gradcheck on the same samples, in turn."""
    spent: Counter[str] = Counter()
    compared = stopped = 0
    for sample in samples(2, 0, shards):
        if not _passes(sample):
            continue
        compared += 1
        best = dict.fromkeys(_WAYS, float("inf"))
        for _ in range(ROUNDS):
            for way, test in _WAYS.items():
                if not LONG < best[way] < float("inf"):
                    best[way] = min(best[way], _seconds(test, sample))
        spent.update(best)
        stopped += best["slow"] > SECONDS
    table = simple_table("", "seconds", "beside verify", title=f"Time for {compared:,} samples that gradcheck passes")
    for way, seconds in spent.items():
        table.add_row(_NAMES[way], f"{seconds:.1f}", f"{seconds / spent['verify']:.2f}×")
    fast, slow = spent["verify"] / spent["fast"], spent["slow"] / spent["verify"]
    report(
        table,
        f"{stopped} slow ones were stopped after {SECONDS} s",
        verdict(fast <= AGAINST_FAST, f"{fast:.2f} times the time of fast gradcheck (at most {AGAINST_FAST})"),
        verdict(slow >= AGAINST_SLOW, f"{slow:.0f} times as fast as slow gradcheck (at least {AGAINST_SLOW})"),
    )
    return fast <= AGAINST_FAST and slow >= AGAINST_SLOW


def _seconds(test: Callable[..., None], sample: Sample) -> float:
    call, inputs = sample.of_inputs()
    start = time.perf_counter()
    with _at_most(SECONDS):
        test(call, inputs)
    return time.perf_counter() - start


def _passes(sample: Sample) -> bool:
    """Whether both take the sample; each has run once then."""
    call, inputs = sample.of_inputs()
    if not inputs or not any(each.numel() for each in inputs):
        return False
    try:
        bs.verify(call, *inputs)
        with _at_most(SECONDS):
            return bool(torch.autograd.gradcheck(call, inputs, fast_mode=True, raise_exception=False))
    except Exception:  # no differentiable output, a sparse input, an operator that hands its input on
        return False


def _slow(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    torch.autograd.gradcheck(call, inputs, raise_exception=False)


def _fast(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    torch.autograd.gradcheck(call, inputs, fast_mode=True, raise_exception=False)


def _verify(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    bs.verify(call, *inputs)


_WAYS = {"verify": _verify, "fast": _fast, "slow": _slow}
_NAMES = {"verify": "backsight.verify", "fast": "gradcheck(fast_mode=True)", "slow": "gradcheck()"}


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Stop what takes longer."""

    def stop(*_: object) -> None:
        raise GaveUp("too slow")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except GaveUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())

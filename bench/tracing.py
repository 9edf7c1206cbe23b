"""What a traced step costs, beside the plain one, PyTorch's DebugMode with hashes and torchtitan's numerics debugging.

    python bench/tracing.py                         # a small GPT and one of 110 M parameters; a quarter of an hour
    python bench/tracing.py --quick                 # the small one, once: to see that it runs
    python bench/tracing.py --torchtitan CHECKOUT   # with what is in `agent_tooling/numerics_debugging` of it

A step is forward, backward and AdamW on two sequences of 256 tokens. It is run plain, traced and under the others in
turn, and the median of the ratios to the plain step is told, with the size of what was written: the file of the trace,
the log of torchtitan, and for DebugMode its log as text, which it keeps in memory. Then two traces are compared, of the
model and of the same one with another epsilon, and all look for ten of the mistakes of `_mutants.py`: DebugMode with
hashes of inputs and results, modules and stack traces, by its own `check_hash_mismatches`; torchtitan as `_titan.py`
says, of results of any size.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import _mutants
import torch
import torch.nn.functional as F
from _measure import median, report, simple_table, verdict
from _mutants import train
from _titan import Titan
from parting import Case, _cases, _named
from rich.table import Table
from torch import Tensor, nn

import backsight as bs

try:
    from torch.utils._debug_mode import DebugMode
except ImportError:  # before PyTorch 2.10
    DebugMode = None

RATIO, MEGABYTES, SECONDS = 2.0, 20.0, 3.0
"""What a traced step may cost beside the plain one, what it may write, and how long a comparison may take."""

MOST = 29
"""Letters of what a tool says that are shown."""

SOUGHT = (
    *("gpt: no scale", "gpt: gelu tanh", "gpt: transposed", "gpt: custom backward", "gpt: dropout p", "gpt: lr"),
    *("resnet: bn eps", "resnet: bn momentum", "lstm: gate", "unet: groups"),
)
"""The ten mistakes: of the forward, the backward, a buffer and the optimizer."""


class Block(nn.Module):
    def __init__(self, width: int, heads: int, eps: float):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        parts = self.qkv(self.before(x)).split(c, 2)
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.between(x))))


class GPT(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, vocabulary: int, eps: float = 1e-5):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(Block(width, heads, eps) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


SIZES: dict[str, tuple[int, int, int, int]] = {
    "GPT, 7 M": (256, 4, 6, 8000),
    "GPT, 110 M": (768, 12, 12, 32_000),
}
"""Width, heads, layers and vocabulary."""


class Training:
    """Steps on the same two sequences."""

    def __init__(self, size: str, eps: float = 1e-5):
        torch.manual_seed(0)
        self.model = GPT(*SIZES[size], eps=eps)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self._tokens = torch.randint(0, SIZES[size][3], (2, 257))

    def step(self) -> None:
        self.optimizer.zero_grad()
        out = self.model(self._tokens[:, :-1])
        F.cross_entropy(out.flatten(0, 1), self._tokens[:, 1:].flatten()).backward()
        self.optimizer.step()

    def traced(self, folder: Path) -> int:
        """Trace a step; return how many bytes were written."""
        with bs.trace(folder) as trace:
            self.step()
        return sum(each.stat().st_size for each in Path(trace.path).iterdir())

    def hashed(self) -> int:
        """Run a step under DebugMode; return the bytes of its log."""
        with DebugMode() as mode, DebugMode.log_tensor_hashes(hash_inputs=True):
            self.step()
        return len(mode.debug_string().encode())


@dataclass(frozen=True)
class Cost:
    """The ratio to the plain step, and the bytes written."""

    ratio: float
    size: int


def costs(size: str, rounds: int, folder: Path, titan: Titan | None) -> tuple[float, dict[str, Cost]]:
    """Return the seconds of a plain step, and what each tool costs."""
    training = Training(size)
    tools: dict[str, Callable[[], int]] = {"backsight": lambda: training.traced(folder / "cost")}
    if DebugMode is not None:
        tools["DebugMode"] = training.hashed
    if titan is not None:
        tools["torchtitan"] = lambda: titan.traced(training.model, training.step, folder)
    for _ in range(2):  # moments of AdamW, pages of memory
        training.step()
    ratios: dict[str, list[float]] = {name: [] for name in tools}
    sizes: dict[str, int] = {}
    plains = []
    for _ in range(rounds):
        for name, tool in tools.items():
            plain, _ = _timed(training.step)
            seconds, sizes[name] = _timed(tool)
            ratios[name].append(seconds / plain)
            plains.append(plain)
    found = {name: Cost(median(ratios[name]), sizes[name]) for name in tools}
    return median(plains), found


def compared(size: str, rounds: int, folder: Path, titan: Titan | None) -> dict[str, float]:
    """Return the seconds that it takes to compare the traces of a step with those of another epsilon."""
    paths, logs = [], []
    for eps in (1e-5, 1e-6):
        with bs.trace(folder / "compared") as trace:
            Training(size, eps).step()
        paths.append(trace.path)
        if titan is not None:
            logs.append(folder / f"compared {eps}.log")
            training = Training(size, eps)
            with titan.tracing(training.model, logs[-1]):
                training.step()
    ways: dict[str, Callable[[], object]] = {"backsight": lambda: bs.diff(*paths)}
    if titan is not None:
        ways["torchtitan"] = lambda: titan.compared(*logs)
    for compare in ways.values():
        compare()  # imports
    return {name: median(_timed(way)[0] for _ in range(rounds)) for name, way in ways.items()}


def _timed(run: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    answer = run()
    return time.perf_counter() - began, answer


def found_by_backsight(case: Case, folder: Path) -> tuple[bool, str]:
    """Return whether the place was named, and what was said."""
    paths = []
    for on in (case.with_, case.with_ | {case.name}):
        with bs.trace(folder / "sought", steps=(0, 1)) as trace:
            train(case.model, on, 2)
        paths.append(trace.path)
    difference = bs.diff(*paths)
    origin, first = difference.origin, difference.first
    return origin is not None and _named(origin, case), first.title if first is not None else "no difference"


def found_by_debug_mode(case: Case) -> tuple[bool, str]:
    """Return whether the first call that it tells of is that of the mistake, and what it says."""
    logs = []
    for on in (case.with_, case.with_ | {case.name}):
        mode = DebugMode(record_nn_module=True, record_stack_trace=True)
        with mode, DebugMode.log_tensor_hashes(hash_inputs=True):
            train(case.model, on, 2)
        logs.append(mode.logs)
    try:
        found = DebugMode.check_hash_mismatches(*logs)
    except ValueError as refusal:
        text = str(refusal)
        places = [int(word) for word in text.partition("at index")[2].replace(":", " ").split()[:1]]
        return any(_is_at(log[place], case) for log in logs for place in places), text
    if not found:
        return False, "no mismatch"
    first = next(k for k, pair in enumerate(zip(*logs, strict=True)) if _hashes(pair[0]) != _hashes(pair[1]))
    text = f"{found[0]['call']}: hash differs by {found[0]['rel_diff']:.1e}, with {len(found) - 1:,} more"
    return _is_at(logs[0][first], case), text


def found_by_titan(case: Case, titan: Titan, folder: Path) -> tuple[bool, str]:
    """Return whether the first row that differs is that of the mistake, and what it says."""
    logs = []
    for on in (case.with_, case.with_ | {case.name}):
        logs.append(folder / f"sought {len(logs)}.log")
        train(case.model, on, 2, lambda net: titan.tracing(net, logs[-1], least=1))
    row, _ = titan.first(*logs, beside=Path(_mutants.__file__))
    if row is None:
        return False, "no difference"
    kind, _, name = case.where.partition(" ")
    if kind == "optimizer":
        return row.file.startswith("optim/"), row.said
    if kind in ("module", "start"):  # the last name alone: its rows begin with the backward of a later block
        return bool(name) and row.module.rpartition(".")[2] == name.rpartition(".")[2], row.said
    return case.where in row.line, row.said


def _hashes(call: object) -> object:
    log = getattr(call, "log", None)
    return log.get("hash") if log is not None else None


def _is_at(call: object, case: Case) -> bool:
    """Whether a call of DebugMode's log is at the line of a mistake, or in its module, as its stack says."""
    kind, _, name = case.where.partition(" ")
    stack = f"{getattr(call, 'stack_trace', '') or ''}{getattr(call, 'fwd_stack_trace', '') or ''}"
    if kind == "optimizer":
        return "optimizer.step()" in stack
    if kind in ("module", "start"):
        return any(f"self.{part}" in stack for part in name.split(".")[-1:])
    return any(case.where in line.partition("#")[2] for line in stack.splitlines())


def sought(folder: Path, titan: Titan | None) -> tuple[Table, dict[str, int]]:
    """Return a table of what each says of the ten mistakes, and how often the place is named."""
    tools: dict[str, Callable[[Case], tuple[bool, str]]] = {"backsight": lambda case: found_by_backsight(case, folder)}
    if DebugMode is not None:
        tools["DebugMode"] = found_by_debug_mode
    if titan is not None:
        tools["torchtitan"] = lambda case: found_by_titan(case, titan, folder)
    others = [name for name in tools if name != "backsight"]
    said = [f"what {name} says" for name in others]
    table = simple_table("mistake", *tools, *said, title="Whether the place of a mistake is named")
    named = dict.fromkeys(tools, 0)
    for case in _cases():
        if f"{case.model}: {case.name}" not in SOUGHT:
            continue
        answers = {name: tool(case) for name, tool in tools.items()}
        for name, (right, _) in answers.items():
            named[name] += right
        shown = ["yes" if right else "no" for right, _ in answers.values()]
        told = [next(iter(answers[name][1].splitlines()), "")[:MOST] for name in others]
        table.add_row(f"{case.model}: {case.name}", *shown, *told)
    return table, named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small GPT, one round")
    parser.add_argument("--rounds", type=int, default=5)
    checkout = os.environ.get("TORCHTITAN")  # bench/performance.py gives no arguments
    parser.add_argument("--torchtitan", type=Path, default=checkout, help="a checkout of torchtitan")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    titan = Titan(Path(options.torchtitan)) if options.torchtitan else None
    sizes, rounds = (list(SIZES)[:1], 1) if options.quick else (list(SIZES), options.rounds)
    title = f"One step of {torch.get_num_threads()} threads, median of {rounds} rounds"
    table = simple_table("", "plain", "tool", "times the step", "MB a step", "s to compare", title=title)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            plain, found = costs(size, rounds, Path(folder), titan)
            spent = compared(size, rounds, Path(folder), titan)
            for name, cost in found.items():
                own = f"{spent[name]:.2f}" if name in spent else ""
                table.add_row(size, f"{plain:.2f} s", name, f"{cost.ratio:.2f}", f"{cost.size / 1e6:.2f}", own)
            ours, seconds = found["backsight"], spent["backsight"]
            met = ours.ratio <= RATIO and ours.size <= MEGABYTES * 1e6 and seconds < SECONDS
            text = f"{size}: {ours.ratio:.2f} times the step, {ours.size / 1e6:.2f} MB, compared in {seconds:.2f} s"
            lines.append((met, text))
        mistakes, named = sought(Path(folder), titan)
    told = ", ".join(f"{name} {count} of {len(SOUGHT)}" for name, count in named.items())
    report(table, mistakes, *(verdict(*line) for line in lines), f"the place is named: {told}")


if __name__ == "__main__":
    main()

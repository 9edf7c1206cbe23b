"""Recordings as nobody records them: whole, with every checksum right, and full of numbers that are not true.

    python tests/runs/hostile.py SEED SECONDS MOST FOLDER

mutates at most so many recordings for so long, and asks each everything. What may come back is an answer, or a
`RunError`.
"""

from __future__ import annotations

import io
import json
import math
import os
import random
import shutil
import struct
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from backsight.runs import BINS, STATISTICS, RunError, RunWriter, lines, open_run, outlet, runs_in, segments
from backsight.runs.blocks import Block, scan

NASTY: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e300, 1e308, 5e-324,
    {"$float": "nan"}, {"$float": "inf"}, "", "9", "x" * 5000, "\ud800", "\x1b[2J", "\0", [], {}, [None], [[]],
    {"a": 1}, {"name": 3}, ["x"], [10**30], [-1, 2**62], {"$float": "x"},
]  # fmt: skip
"""What stands where something else was expected."""

NUMBERS = [0, 1, 2, 7, 255, 2**16, 2**22, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -1, -(2**40), -(2**63)]

Mutation = Callable[[random.Random, Path], None]


def deep(depth: int) -> Any:
    """A list in a list in a list."""
    held: Any = 1
    for _ in range(depth):
        held = {"children": [held]}
    return held


def recorded(path: Path, *, closed: bool = True, ranks: int = 1, steps: int = 40) -> None:
    """A small run with all that a run may hold."""
    for rank in range(ranks):
        writer = RunWriter(path, rank=rank, world=ranks, config={"lr": 0.1, "deep": deep(5)}, environment={"host": "x"})
        kinds = ("grad", "weight", "output", "input", "state")
        tensors = [writer.tensor(f"fc{k}.weight", kind, f"fc{k}", (4, 2), "float32") for k, kind in enumerate(kinds)]
        scalar, listed = writer.metric("gap", merge="sum"), writer.metric("list")
        nodes = [{"name": f"fc{k}", "type": "Linear", "parameters": [], "children": []} for k in range(5)]
        weight = {"name": "weight", "requires_grad": True}
        nodes[0]["parameters"] = [weight]
        writer.tree([{"name": "", "type": "Net", "parameters": [], "children": nodes}])
        for step in range(steps):
            rows = np.zeros(5, STATISTICS)
            rows["count"], rows["mean"], rows["m2"] = 8, step / 3, np.arange(5)
            rows["min"], rows["max"], rows["nans"] = -step, step, step == 30
            counts = np.zeros((5, BINS), "<u4")
            counts[:, step % BINS] = 8
            writer.append(step, tensors, rows, histograms=counts)
            writer.append(step, tensors[2:3], rows[:1], call=1)
            writer.values(step, scalar, tensors, np.arange(5.0))
            writer.values(step, listed, tensors[:1], np.ones((1, 3)))
            writer.mark(step, loss=1 / (step + 1), epoch=step // 10, phase="train")
            writer.flush()
        writer.event("order", step=1, modules=[["enter", "fc0"], ["leave", "fc0"]])
        writer.event("resumed", step=3, why="x")
        if closed:
            writer.close()


def everything(path: Path) -> Iterator[Callable[[], object]]:
    """Yield all that may be asked of a run, as its readers, its tables and its viewer do."""
    run = open_run(path)
    yield lambda: (run.name, run.ranks, run.world, run.created, run.config, run.environment, repr(run))
    yield lambda: time.localtime(run.created)
    yield lambda: (run.tree, run.tensors, run.metrics, run.damage)
    yield lambda: (run.steps, run.last_steps, run.times())
    yield lambda: (run.marks, run.events, run.tags())
    yield lambda: (run.graph, run.memory)
    yield lambda: run.frame(as_="numpy")
    yield lambda: run.latest(as_="numpy")
    yield lambda: run.frame(steps=slice(3, 9, 2), stat="norm", as_="pandas")
    yield run.first_nonfinite
    for tensor in run.tensors[:8]:
        yield lambda tensor=tensor: run.series(tensor.name, "l2", kind=tensor.kind)
        yield lambda tensor=tensor: run.histograms(tensor.name, kind=tensor.kind)
    yield lambda: run.heatmap("l2")
    yield lambda: run.heatmap("std", columns=3)
    yield lambda: run.heatmaps([*run.metrics], columns=2)


def beside(path: Path) -> Iterator[Callable[[], object]]:
    """Yield what has to work whatever a run beside others holds: nothing at all may be raised."""
    from backsight.tables.commands import list_runs
    from backsight.viewer.library import Library
    from backsight.viewer.server import listing_of

    yield lambda: runs_in(path.parent)
    yield lambda: list_runs(str(path.parent))
    yield lambda: json.dumps(listing_of(Library(path.parent)), allow_nan=False)


def questions(path: Path) -> Iterator[Callable[[], object]]:
    """Yield what a page, a terminal and the audit ask."""
    from backsight.tables.commands import audit_runs, show_run
    from backsight.viewer.library import Library
    from backsight.viewer.question import HOMES

    yield lambda: show_run(str(path), everything=True)
    yield lambda: audit_runs([str(path)])
    library = Library(path.parent)
    given = {"stat": "l2", "kind": "grad", "tensor": "fc0.weight", "with": path.name, "columns": "7"}
    for question in (*HOMES, "compare"):
        yield lambda question=question: json.dumps(library.ask(path.name, question, given), allow_nan=False)


def ask(path: Path, deeper: bool) -> None:
    """Ask a run everything; raise what is neither an answer nor an error that says what is wrong."""
    from backsight.viewer.library import NoSuchThing
    from backsight.viewer.question import BadQuestion

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in beside(path):
            each()
        for several in (everything, questions) if deeper else (everything,):
            try:
                for each in several(path):
                    try:
                        each()
                    except (RunError, BadQuestion, NoSuchThing):
                        continue
            except RunError:
                continue


# What is done to a run


def some_file(random_: random.Random, path: Path, endings: tuple[str, ...] = ("",)) -> Path | None:
    found = sorted(
        each for each in path.rglob("*") if each.is_file() and not each.is_symlink() and each.name.endswith(endings)
    )
    return random_.choice(found) if found else None


def bytes_changed(random_: random.Random, path: Path) -> None:
    """Flip, cut, double or blank some bytes: most of it fails a checksum."""
    if (file := some_file(random_, path)) is None:
        return
    data = bytearray(file.read_bytes())
    at, to = sorted((random_.randrange(len(data) + 1), random_.randrange(len(data) + 1)))
    what = random_.randrange(5)
    if what == 0 and data:
        data[min(at, len(data) - 1)] ^= 1 << random_.randrange(8)
    elif what == 1:
        data = data[:at]
    elif what == 2:
        data[at:to] = data[at:to] * 2
    elif what == 3:
        data[at:to] = bytes(to - at)
    else:
        data[at:to] = random_.randbytes(to - at)
    file.write_bytes(data)


def object_changed(random_: random.Random, path: Path) -> None:
    """Change an object of JSON, and mend its checksum."""
    if (file := some_file(random_, path, (".json", ".jsonl"))) is None:
        return
    found = file.read_bytes().split(b"\n")
    k = random_.randrange(len(found))
    try:
        held = lines.opened(found[k])
    except lines.BadLine:
        return
    if not (places := list(_places(held))):
        return
    where, key = random_.choice(places)
    value = random_.choice([*NASTY, deep(random_.choice([40, 400, 20_000]))])
    what = random_.randrange(4)
    if what == 0:
        del where[key]
    elif what == 1 and isinstance(where, dict):
        where[random_.choice(["", "x", "\ud800", "$float", "name"])] = value
    else:
        where[key] = value
    found[k] = sealed(held)
    file.write_bytes(b"\n".join(found))


def sealed(held: Any) -> bytes:
    """An object with its checksum, however deep it is."""
    body = _json(held).encode("ascii")[:-1]
    return body + b',"crc":"%08x"}' % zlib.crc32(body)


def _json(held: Any) -> str:
    try:
        return json.dumps(held)
    except RecursionError:  # only `deep` is
        marker, depth = "@", 0
        while isinstance(held, dict) and len(held) == 1 and "children" in held:
            held, depth = held["children"][0], depth + 1
        if depth:
            return '{"children":[' * depth + _json(held) + "]}" * depth
        if isinstance(held, dict):
            return "{" + ",".join(f"{json.dumps(str(key))}:{_json(each)}" for key, each in held.items()) + "}"
        return "[" + ",".join(map(_json, held)) + f"]{marker[1:]}"


def _places(held: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [held]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each))
        for key in keys:
            yield each, key
            if isinstance(each[key], (dict, list)):
                waiting.append(each[key])


def block_changed(random_: random.Random, path: Path) -> None:
    """Change a block, and mend its checksums."""
    if (file := some_file(random_, path, (".live", ".sorted"))) is None:
        return
    data = file.read_bytes()
    blocks = [each for each in scan(data) if isinstance(each, Block)]
    if not blocks:
        return
    block = random_.choice(blocks)
    payload = bytearray(block.payload)
    rows, table, columns = block.rows, block.table, block.columns
    for _ in range(random_.randrange(1, 4)):
        what = random_.randrange(6)
        if what == 0:
            rows = random_.choice([0, 1, rows + 1, 2**20, 2**31, 2**32 - 1])
        elif what == 1:
            table = random_.choice("SRHCVIX")
        elif what == 2 and payload:
            payload[random_.randrange(min(len(payload), columns or 1))] = random_.randrange(12)  # an encoding
        elif what == 3 and len(payload) >= 8:
            at = random_.randrange(len(payload) - 7)
            payload[at : at + 8] = struct.pack("<q", random_.choice(NUMBERS))
        elif what == 4 and len(payload) >= 8:
            at = random_.randrange(len(payload) - 7)
            payload[at : at + 8] = struct.pack("<d", random_.choice([math.nan, math.inf, 1e300, -1e-300]))
        else:
            payload = payload[: random_.randrange(len(payload) + 1)]
    made = made_block(table, min(rows, 2**32 - 1), bytes(payload), random_.choice([columns, columns, 0, 1, 255]))
    file.write_bytes(data[: block.offset] + made + data[block.offset + block.length :])


def made_block(table: str, rows: int, payload: bytes, columns: int) -> bytes:
    head = struct.pack("<4s1sBHIII", b"BSB1", table.encode(), columns, 0, rows, len(payload), zlib.crc32(payload))
    return head + struct.pack("<I", zlib.crc32(head)) + payload


def index_changed(random_: random.Random, path: Path) -> None:
    """Let the index of a sorted segment point elsewhere, and mend its checksums."""
    if (file := some_file(random_, path, (".sorted",))) is None:
        return
    held = segments.Sorted(file)
    try:
        held.refresh()
    except Exception:
        return
    if not len(held.index["rows"]):
        return
    column = random_.choice(list(held.index))
    held.index[column] = held.index[column].copy()
    held.index[column][random_.randrange(len(held.index[column]))] = random_.choice(NUMBERS)
    data = file.read_bytes()
    offset = struct.unpack_from("<Q", data, len(data) - 16)[0]
    if offset > len(data):
        return
    where = struct.pack("<Q", random_.choice([offset] * 9 + [0, 2**63]))
    index = segments.packed("I", held.index)
    file.write_bytes(data[:offset] + index + where + struct.pack("<I4s", zlib.crc32(where), b"BSIX"))


def file_changed(random_: random.Random, path: Path) -> None:
    """Put something else where a file was."""
    if (file := some_file(random_, path)) is None:
        return
    what = random_.randrange(6)
    if what == 0:
        file.unlink()
    elif what == 1:
        file.unlink()
        file.mkdir()
    elif what == 2:
        file.unlink()
        os.mkfifo(file)
    elif what == 3:
        file.unlink()
        file.symlink_to(random_.choice(["/dev/zero", file.name, "/proc/self/mem", "/nowhere"]))
    elif what == 4:
        other = some_file(random_, path)
        if other is not None:
            shutil.copyfile(other, file) if other != file else None
    else:
        names = ["000099.live", "000000-000077.sorted", "9" * 18 + ".live", "rank-00002", "graph.json", "tree.json"]
        file.rename(file.with_name(random_.choice(names))) if not file.with_name(names[0]).exists() else None


MUTATIONS: list[Mutation] = [bytes_changed, object_changed, object_changed, block_changed, block_changed, index_changed, file_changed]  # fmt: skip  # noqa: E501


def mutated(seed: int, bases: list[Path], path: Path) -> list[str]:
    """Make a run out of one of the bases, and change it; return what was done."""
    random_ = random.Random(seed)
    shutil.rmtree(path, ignore_errors=True)
    base = random_.choice(bases)
    shutil.copytree(base, path)
    done = [base.name]
    for _ in range(random_.choice([1, 1, 2, 4])):
        mutation = random_.choice(MUTATIONS)
        mutation(random_, path)
        done.append(mutation.__name__)
    return done


def bases(folder: Path) -> list[Path]:
    """Runs to begin with: closed, open, of two ranks, merged of many segments."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded(folder / "closed")
    recorded(folder / "open", closed=False)
    recorded(folder / "ranks", ranks=2, steps=5)
    before = outlet.SEGMENT_FLUSHES
    outlet.SEGMENT_FLUSHES = 2
    try:
        recorded(folder / "merged")
    finally:
        outlet.SEGMENT_FLUSHES = before
    return sorted(folder.iterdir())


def limited(gigabytes: float) -> None:
    """Let this process have so much memory and no more: whoever asks for what a file claims is told so."""
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + int(gigabytes * 2**30), resource.RLIM_INFINITY))


def fuzz(seed: int, seconds: float, most: int, folder: Path) -> int:
    """Mutate and ask for so long; return how many runs that were. What is raised is told with its seed, and raised."""
    import pandas  # noqa: F401  # whose import takes memory
    import torch  # noqa: F401

    import backsight.viewer  # noqa: F401

    start, tried = bases(folder / "bases"), 0
    ask(start[0], deeper=True)
    limited(2.0)
    until = time.monotonic() + seconds
    quiet = io.StringIO()
    while time.monotonic() < until and tried < most:
        done = mutated(seed + tried, start, folder / "runs" / "bad")
        out, err, sys.stdout, sys.stderr = sys.stdout, sys.stderr, quiet, quiet
        try:
            ask(folder / "runs" / "bad", deeper=tried % 4 == 0)
        except BaseException:
            sys.stdout, sys.stderr = out, err
            print(f"seed {seed + tried}: {', '.join(done)}")
            traceback.print_exc(file=sys.stdout)
            return -1
        finally:
            sys.stdout, sys.stderr = out, err
            quiet.truncate(0)
        tried += 1
    return tried


if __name__ == "__main__":
    tried = fuzz(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    print(f"{tried} runs")
    sys.exit(tried < 0)

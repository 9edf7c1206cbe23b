"""Recordings that somebody has made to harm: each is read, or a line says what is wrong, and it hides no other."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharded import examples

from backsight.runs import DamagedRun, RunWarning, lines, open_run, runs_in
from backsight.runs.blocks import packed

HERE = Path(__file__).parent

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from(hostile.NUMBERS),
        st.floats(),
        st.text(st.characters(codec=None, categories=None)),
        st.sampled_from(["name", "type", "children", "id", "step", "tags", "grad", "\ud800"]),
    ),
    lambda inside: st.one_of(st.lists(inside), st.dictionaries(st.text(max_size=5), inside)),
    max_leaves=12,
)

OBJECTS = {
    "manifest.json": ["format", "version", "rank", "world", "job", "created", "config", "environment"],
    "tensors.jsonl": ["id", "name", "kind", "module", "shape", "dtype", "replicated"],
    "metrics.jsonl": ["id", "name", "merge"],
    "marks.jsonl": ["step", "tags"],
    "events.jsonl": ["event", "step", "time", "details"],
    "tree.json": ["tree"],
    "graph.json": ["step", "graph"],
    "memory.json": ["step", "memory"],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in a folder of its own, with another beside it."""
    hostile.recorded(tmp_path / "runs" / "good", steps=3)
    hostile.recorded(tmp_path / "runs" / "bad", steps=3)
    return tmp_path / "runs" / "bad"


def change(file: Path, **members: Any) -> None:
    """Change members of the last object of a file, and mend its checksum; `...` takes one away."""
    *before, last, _ = (file.read_bytes().rstrip(b"\n") + b"\n").split(b"\n")
    held = {**lines.opened(last), **members}
    held = {name: value for name, value in held.items() if value is not ...}
    file.write_bytes(b"\n".join([*before, hostile.sealed(held), b""]))


def listed(folder: Path) -> tuple[str, dict[str, Any]]:
    """What the terminal and the viewer say of the runs in a folder."""
    from backsight.tables.commands import list_runs
    from backsight.viewer.library import Library
    from backsight.viewer.server import listing_of

    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert list_runs(str(folder)) == 0
    return said.getvalue(), json.loads(json.dumps(listing_of(Library(folder)), allow_nan=False))


MANIFESTS = [
    {"version": "9"}, {"version": None}, {"version": 0}, {"created": ...}, {"created": "yesterday"},
    {"created": 1e300}, {"created": {"$float": "nan"}}, {"created": -1}, {"world": "two"}, {"world": 0},
    {"config": []}, {"config": hostile.deep(20_000)}, {"environment": None}, {"job": 3}, {"rank": 2**70},
]  # fmt: skip


@pytest.mark.parametrize("members", MANIFESTS, ids=lambda members: next(iter(members)))
def test_a_manifest_that_nobody_writes_is_a_line_that_says_what_is_wrong(run: Path, members: dict[str, Any]) -> None:
    change(run / "rank-00000" / "manifest.json", **members)
    with pytest.raises(DamagedRun, match=f"{next(iter(members))}|nested too deeply"):
        open_run(run)
    with pytest.warns(RunWarning, match="manifest.json is damaged"):
        assert [each.name for each in runs_in(run.parent)] == ["good"]
    said, viewer = listed(run.parent)
    assert re.search(r"^bad .*unreadable", said, re.MULTILINE) and "good" in said
    assert re.search(r"^unreadable: .*bad/rank-00000/manifest\.json is damaged", said, re.MULTILINE)
    assert [each["name"] for each in viewer["runs"]] == ["good"]
    assert [each["name"] for each in viewer["unreadable"]] == ["bad"]
    assert "manifest.json is damaged" in viewer["unreadable"][0]["why"]


LINES = [
    ("tensors.jsonl", {"id": 2**40}), ("tensors.jsonl", {"id": -1}), ("tensors.jsonl", {"shape": "x"}),
    ("tensors.jsonl", {"name": 3}), ("tensors.jsonl", {"module": []}), ("metrics.jsonl", {"merge": "?"}),
    ("marks.jsonl", {"tags": 3}), ("marks.jsonl", {"step": 2**80}), ("events.jsonl", {"time": "x"}),
    ("events.jsonl", {"details": None}), ("marks.jsonl", {"tags": hostile.deep(400)}),
    ("marks.jsonl", {"tags": {"deep": hostile.deep(20_000)}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "members"), LINES, ids=lambda each: each if type(each) is str else "")
def test_a_line_that_nobody_writes_is_counted_as_damage(run: Path, name: str, members: dict[str, Any]) -> None:
    change(run / "rank-00000" / name, **members)
    hostile.ask(run, deeper=True)
    opened = open_run(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert opened.steps.tolist() == [0, 1, 2]
        assert (len(opened.tensors), len(opened.marks), len(opened.events)) != (0, 0, 0)
    assert opened.damage.lines == 1
    said, viewer = listed(run.parent)
    assert re.search(r"^good .*none$", said, re.MULTILINE)
    if name != "events.jsonl":  # which a list does not read
        assert {each["name"]: each["damage"] for each in viewer["runs"]} == {"bad": "1 line", "good": "none"}
    if name in ("tensors.jsonl", "metrics.jsonl"):
        assert re.search(r"^bad .*1 line$", said, re.MULTILINE)


def in_so_much_memory(code: str, path: Path) -> str:
    """What a program prints that has a gigabyte more than it begins with."""
    head = f"""
        import sys, warnings
        from pathlib import Path
        sys.path.insert(0, {str(HERE)!r})
        import hostile, numpy as np
        from backsight.runs import open_run
        from backsight.runs.segments import Sorted
        warnings.simplefilter("ignore")
        hostile.limited(1.0)
        path = Path(sys.argv[1])
    """
    program = textwrap.dedent(head) + textwrap.dedent(code)
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.parametrize("claimed", [2**23, 2**31, 2**32 - 1])
@pytest.mark.parametrize("ending", [".live", ".sorted"])
def test_a_small_block_cannot_claim_many_rows(tmp_path: Path, claimed: int, ending: str) -> None:
    hostile.recorded(tmp_path / "run", closed=ending == ".sorted", steps=3)
    file = next((tmp_path / "run").rglob(f"*{ending}"))
    zeros = bytes([0] * 12)  # every column of it is zero
    block = hostile.made_block("R", claimed, zeros, 12)
    data = file.read_bytes()
    file.write_bytes(block + data if ending == ".live" else data[:-16] + block)
    code = "run = open_run(path); print(len(run.frame(as_='numpy')['step']), run.damage.blocks)"
    said = in_so_much_memory(code, tmp_path / "run")
    rows, damaged = map(int, said.split())
    assert (rows, damaged > 0) == (18, True)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
def test_many_small_blocks_cannot_claim_many_rows_together(tmp_path: Path) -> None:
    hostile.recorded(tmp_path / "run", closed=False, steps=3)
    file = next((tmp_path / "run").rglob("*.live"))
    file.write_bytes(file.read_bytes() + hostile.made_block("R", 2**20, bytes([0] * 12), 12) * 1000)
    said = in_so_much_memory("run = open_run(path); run.steps; print(run.damage.blocks > 900)", tmp_path / "run")
    assert said == "True\n"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.parametrize("column", ["offset", "length", "rows", "tensor", "first", "last", "nonfinite", "table"])
@pytest.mark.parametrize("number", [2**40, 2**62, 2**63 - 1, -1, -(2**63), 0])
def test_an_index_that_points_elsewhere_asks_for_no_memory(run: Path, column: str, number: int) -> None:
    file = next(run.rglob("*.sorted"))
    held = hostile.segments.Sorted(file)
    held.refresh()
    held.index[column] = np.full_like(held.index[column], number)
    data = file.read_bytes()
    offset = struct.unpack_from("<Q", data, len(data) - 16)[0]
    file.write_bytes(data[:offset] + packed("I", held.index) + data[-16:])
    hostile.ask(run, deeper=False)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize("what", ["pipe", "zero", "loop", "folder"])
@pytest.mark.parametrize("ending", ["manifest.json", "tensors.jsonl", "marks.jsonl", "tree.json", ".sorted"])
def test_what_is_no_file_keeps_nobody_waiting(run: Path, ending: str, what: str) -> None:
    folder = run / "rank-00000"
    file = next((each for each in folder.iterdir() if each.name.endswith(ending)), folder / ending)
    file.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero" if what == "zero" else file.name)
    hostile.ask(run, deeper=False)
    said, _ = listed(run.parent)
    assert "good" in said and "bad" in said


@pytest.mark.parametrize("tree", [[], {}, [1], [{"name": ""}], [{"name": "", "type": 3}], "x", hostile.deep(30)])
def test_a_tree_of_another_shape_costs_the_tree(run: Path, tree: Any) -> None:
    change(run / "rank-00000" / "tree.json", tree=tree)
    hostile.ask(run, deeper=True)
    assert not open_run(run).tree


def test_modules_may_be_deep_inside_of_each_other(tmp_path: Path) -> None:
    """A U-net of skip connections has two for each level of its resolution."""
    tree: dict[str, Any] = {"name": "x" * 50, "type": "Linear", "parameters": [], "children": []}
    for depth in range(49, -1, -1):
        tree = {"name": "x" * depth, "type": "Sequential", "parameters": [], "children": [tree]}
    with hostile.RunWriter(tmp_path / "run") as writer:
        writer.tree([tree])
    assert open_run(tmp_path / "run").tree == [tree]


def test_names_that_are_no_text_reach_a_page_and_a_table(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run\udcff"
    with hostile.RunWriter(path, config={"\ud800": "\ud800"}) as writer:
        number = writer.tensor("\ud800", "grad", "\ud800", (1,), "float32")
        writer.append(0, [number], np.ones(1, hostile.STATISTICS))
        writer.values(0, writer.metric("\udc80"), [number], [1.0])
        writer.mark(0, **{"\ud800": "\ud800"})
    for kind in ("pandas", "arrow", "polars"):
        assert "\\udc80" in list(
            getattr(open_run(path).frame(as_=kind), "column_names" if kind == "arrow" else "columns")
        )
    hostile.ask(path, deeper=True)
    open_run(path).to_report(tmp_path / "out.html")


@pytest.mark.parametrize("name", OBJECTS)
def test_no_object_raises_what_does_not_say_what_is_wrong(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("fuzzed") / "run"
    hostile.recorded(folder, steps=2)
    file = folder / "rank-00000" / name
    before = file.read_bytes() if file.exists() else b""

    @settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(OBJECTS[name]), VALUES), VALUES)
    def fuzzed(members: dict[str, Any], value: Any) -> None:
        if before:
            file.write_bytes(before)
            change(file, **members)
        else:
            file.write_bytes(hostile.sealed({"step": 0, name.partition(".")[0]: value, **members}))
        hostile.ask(folder, deeper=False)

    fuzzed()


def fuzz(seed: int, seconds: float, most: int, folder: Path) -> str:
    line = [sys.executable, str(HERE / "hostile.py"), str(seed), str(seconds), str(most), str(folder)]
    ended = subprocess.run(line, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.slow
def test_mutated_recordings_are_read_or_refused(tmp_path: Path) -> None:
    assert fuzz(0, 60, 40, tmp_path).endswith(" runs\n")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
def test_mutated_recordings_are_read_or_refused_for_ten_minutes(tmp_path: Path) -> None:
    """A seed that fails is printed: `python tests/runs/hostile.py SEED 60 1 FOLDER` runs it again."""
    seed = int(os.environ.get("BACKSIGHT_FUZZ_SEED") or int.from_bytes(os.urandom(3), "big"))
    assert fuzz(seed, 600, 1 << 30, tmp_path).endswith(" runs\n")

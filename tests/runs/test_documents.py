"""The graph and the memory of a run: one file each, as docs/format.md says, that is whole or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from mini_reader import objects
from torch import nn

import backsight as bs
from backsight.runs import DamagedRun, RunWriter, files, open_run
from backsight.tape import capture, document

FORMAT = Path(__file__).parents[2] / "docs" / "format.md"


@pytest.fixture
def graph():
    return document(capture(nn.Linear(2, 2)(torch.ones(1, 2)).relu()))


@pytest.fixture
def memory():
    model = nn.Linear(2, 2)
    return bs.measure_memory(lambda: model(torch.ones(1, 2)).sum().backward(), model=model).document()


def members(section: str) -> set[str]:
    """Return the members that the document lists in a section."""
    _, _, text = FORMAT.read_text("utf-8").partition(f"\n## {section}\n")
    table = text.partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_they_are_stored_as_the_document_says(path, graph, memory):
    with RunWriter(path) as writer:
        writer.graph(3, graph)
        writer.memory(4, memory)
    folder = path / "rank-00000"
    assert next(objects(folder / "graph.json")) == {"step": 3, "graph": graph}
    assert next(objects(folder / "memory.json")) == {"step": 4, "memory": memory}
    assert set(graph) == members("The graph of a step")
    assert set(memory) == members("The memory of a step")
    leaf = graph["leaves"][0]
    said = FORMAT.read_text("utf-8").partition("| `leaves` |")[2].partition("\n")[0]
    assert set(leaf) <= set(re.findall(r"`(\w+)`", said))


def test_a_run_without_them_holds_none(path):
    with RunWriter(path):
        pass
    run = open_run(path)
    assert (run.graph, run.memory) == (None, None)


def test_they_are_read_once_and_again_when_replaced(path, graph, memory):
    with RunWriter(path) as writer:
        run = open_run(path)
        assert run.graph is None
        writer.graph(0, graph)
        first = run.graph
        assert run.graph is first
        writer.graph(7, {**graph, "root_names": ["other"]})
        assert run.graph is not first
        assert run.stored_graph().step == 7
        writer.memory(2, memory)
        assert run.memory is run.memory


def test_of_several_ranks_the_lowest_that_has_one_is_read(path, graph):
    for number in range(3):
        with RunWriter(path, rank=number, world=3) as writer:
            if number:
                writer.graph(number, graph)
    assert open_run(path).stored_graph().step == 1


def test_any_flipped_bit_is_seen(path, graph):
    with RunWriter(path) as writer:
        writer.graph(0, graph)
    file = path / "rank-00000" / "graph.json"
    whole = file.read_bytes()
    for at in range(0, len(whole) - 1, 97):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(DamagedRun, match=r"graph\.json is damaged: "):
            _ = open_run(path).graph
    for size in (0, 1, len(whole) // 2):
        file.write_bytes(whole[:size])
        with pytest.raises(DamagedRun):
            _ = open_run(path).graph


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"graph": {}}, "does not say which step it is from"),
        ({"step": -1, "graph": {}}, "does not say which step it is from"),
        ({"step": 0, "graph": {}}, r"is damaged: version is missing\."),
        ({"step": 0}, "must be an object or a list, not NoneType"),
        ({"step": 0, "graph": {"version": 1, "types": [["x", "op", None]] * 3}}, "type is missing"),
    ],
)
def test_a_file_that_is_whole_and_no_graph_is_refused(path, held, says):
    from backsight.runs.lines import sealed

    with RunWriter(path) as writer:
        (writer.path / "rank-00000" / "graph.json").write_bytes(sealed(held))
    with pytest.raises(DamagedRun, match=says):
        _ = open_run(path).graph


def test_deep_nesting_is_refused(path):
    from zlib import crc32

    body = b'{"step":0,"graph":' + b"[" * 100_000 + b"]" * 100_000
    with RunWriter(path) as writer:
        (writer.path / "rank-00000" / "graph.json").write_bytes(body + b',"crc":"%08x"}\n' % crc32(body))
    with pytest.raises(DamagedRun, match=r"graph\.json is damaged"):
        _ = open_run(path).graph


def test_a_file_larger_than_a_recording_writes_is_not_read(path, graph, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_DOCUMENT", 100)
    with RunWriter(path) as writer:
        writer.graph(0, graph)
    with pytest.raises(DamagedRun, match="which is more than a recording writes"):
        _ = open_run(path).graph


def test_the_rest_of_a_run_is_read_beside_a_damaged_graph(path, graph):
    with RunWriter(path) as writer:
        writer.graph(0, graph)
        writer.mark(0, loss=1.0)
    (path / "rank-00000" / "graph.json").write_text("nonsense")
    assert open_run(path).marks[0].tags == {"loss": 1.0}

"""Traces that are cut off, damaged, of another version, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

import backsight as bs


def test_what_is_cut_off_is_read_as_far_as_it_goes(traced):
    whole = traced((0,))
    file = Path(whole.path) / "0.trace"
    data = file.read_bytes()
    for part in (0.5, 0.9, 0.99):
        file.write_bytes(data[: int(len(data) * part)])
        held = bs.open_trace(whole.path)
        assert held.operations == whole.operations[: len(held.operations)]
        assert "the end of the trace is missing" in held.notes[0]


def test_what_is_damaged_is_read_as_far_as_that(traced):
    whole = traced((0, 1))
    file = Path(whole.path) / "0.trace"
    data = bytearray(file.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    file.write_bytes(data)
    held = bs.open_trace(whole.path)
    assert held.notes[0].startswith("damaged")
    assert bs.diff(whole, held).cls == "same"


@pytest.mark.parametrize("content", [b"", b"BSTRACE1", b"something else that is long enough"])
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "0.trace").write_bytes(content)
    with pytest.raises(bs.TraceError, match=r"is not a trace|is empty"):
        bs.open_trace(tmp_path / "t")


def test_a_later_version_says_so(tmp_path):
    (tmp_path / "0.trace").write_bytes(b"BSTRACE9 and more")
    with pytest.raises(bs.TraceError, match="was written by a later backsight"):
        bs.open_trace(tmp_path)


def test_a_folder_without_a_trace_and_no_folder_say_so(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    with pytest.raises(
        bs.TraceError, match=r"train\.py is a script, not a trace. .* backsight diff -- .python .*train\.py"
    ):
        bs.open_trace(script)
    with pytest.raises(bs.TraceError, match="holds no trace"):
        bs.open_trace(tmp_path)
    with pytest.raises(bs.TraceError, match="there is no trace at"):
        bs.open_trace(tmp_path / "nowhere")


def test_a_rank_that_is_not_there_says_which_are(traced):
    path = traced((0,)).path
    with pytest.raises(bs.TraceError, match="has no rank 3; it has 0"):
        bs.open_trace(path, rank=3)

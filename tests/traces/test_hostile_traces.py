"""Traces that were damaged, or made to do harm: read as far as they are sound, or refused in a sentence."""

from __future__ import annotations

import io
import json
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharded import examples
from trainings_traced import Training

import backsight as bs
from backsight.traces.records import PRINT

FRAME = struct.Struct("<cII")
Frames = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> tuple[Path, bytes, Frames]:
    """A folder to write to, the bytes of a real trace, and its frames."""
    folder = tmp_path_factory.mktemp("real")
    torch.manual_seed(0)
    with bs.trace(folder / "t", steps=(0,)):
        Training().run(1)
    data = (folder / "t" / "0.trace").read_bytes()
    return folder, data, frames_of(data)


def frames_of(data: bytes) -> Frames:
    found, position = [], 8
    while position < len(data):
        kind, length, _ = FRAME.unpack_from(data, position)
        found.append((kind, zlib.decompress(data[position + FRAME.size :][:length])))
        position += FRAME.size + length
    return found


def written(folder: Path, frames: Frames) -> Path:
    """Write frames, with the checksums that they ought to have."""
    data = b"BSTRACE1"
    for kind, payload in frames:
        packed = zlib.compress(payload, 1)
        data += FRAME.pack(kind, len(packed), zlib.crc32(packed, zlib.crc32(kind))) + packed
    return put(folder, data)


def put(folder: Path, data: bytes) -> Path:
    (folder / "bad").mkdir(exist_ok=True)
    (folder / "bad" / "0.trace").write_bytes(data)
    return folder / "bad"


def read_and_compared(folder: Path, path: Path) -> bs.Trace | None:
    """Open a trace, and compare it in every way: what is wrong with it is a TraceError, or in its notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            held = bs.open_trace(path)
        except bs.TraceError as refusal:
            assert len(str(refusal)) < 600
            return None
        for difference in (bs.diff(folder / "t", held), bs.diff(held, folder / "t"), bs.diff(held, held)):
            assert difference.text() and json.loads(difference.to_json()) and difference.html()
    return held


nonsense = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from(
        [-(10**400), 10**400, 1 << 62, 1 << 63, -1, 1e308, float("nan"), float("inf"), "", "forward", "\x1b[2J"]
    ),
    st.text(max_size=3),
    st.lists(st.integers(-2, 5), max_size=3),
    st.dictionaries(st.sampled_from(["in", "step", "class", "groups"]), st.integers(-2, 5), max_size=2),
)


def changed(content: object, data: st.DataObject) -> object:
    """Return JSON with something in it replaced, left out or doubled."""
    if isinstance(content, (list, dict)) and content and data.draw(st.integers(0, 5)):
        copy = content.copy()
        key = data.draw(st.sampled_from(range(len(content)) if isinstance(content, list) else sorted(content)))
        what = data.draw(st.sampled_from(["change"] * 8 + ["leave out", "double"]))
        if what == "leave out":
            del copy[key]
        elif what == "double" and isinstance(copy, list):
            copy.insert(key, copy[key])
        else:
            copy[key] = changed(copy[key], data)
        return copy
    return data.draw(nonsense)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nonsense_in_its_json_is_no_traceback(real, data):
    folder, _, frames = real
    frames = frames.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from([k for k, (kind, _) in enumerate(frames) if kind not in b"PK"]))
        kind, payload = frames[at]
        frames[at] = kind, json.dumps(changed(json.loads(payload), data)).encode()
    read_and_compared(folder, written(folder, frames))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_other_bytes_in_its_numbers_are_no_traceback(real, data):
    folder, _, frames = real
    frames = frames.copy()
    at = data.draw(st.sampled_from([k for k, (kind, _) in enumerate(frames) if kind in b"PK"]))
    kind, payload = frames[at]
    held = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 12))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.sampled_from([0, 1, 127, 128, 240, 255]))
    frames[at] = kind, bytes(held)[: data.draw(st.sampled_from([len(held), len(held), len(held) // 2]))]
    read_and_compared(folder, written(folder, frames))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_other_bytes_in_its_file_are_no_traceback(real, data):
    folder, whole, _ = real
    held = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    held = held[data.draw(st.sampled_from([0, 0, 0, 8])) : data.draw(st.integers(0, len(held)))]
    read_and_compared(folder, put(folder, bytes(held)))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_frames_in_another_order_are_no_traceback(real, random):
    folder, _, frames = real
    frames = frames.copy()
    random.shuffle(frames)
    read_and_compared(folder, written(folder, frames[: random.randint(1, len(frames))]))


def named(array: np.ndarray, header: str | None = None) -> bytes:
    """A tensor as it is kept; `header`: what the file says of it instead."""
    held = io.BytesIO()
    np.save(held, array)
    data = held.getvalue()
    if header is not None:
        text = header.encode().ljust(118 - len(header) % 64 + len(header) % 64) + b"\n"
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data[-array.nbytes :]
    return struct.pack("<q", 0) + data


@pytest.mark.parametrize(
    "frame",
    [
        (b"V", b"[" * 200_000 + b"]" * 200_000),
        (b"V", b"[[[9e999],\"float32\",\"cpu\",0,-1,\"\"]]"),
        (b"V", b"[[[" + b"9" * 5000 + b"],\"float32\",\"cpu\",0,-1,\"\"]]"),
        (b"V", json.dumps([[[1 << 40] * 60, "float32", "cpu", 0, -1, ""]]).encode()),
        (b"V", json.dumps([[[3], "float32", "cpu", -7, -1, ""]]).encode()),
        (b"B", b"{\"step\":1e999}"),
        (b"B", b"[]"),
        (b"E", b"{\"step\":77,\"optimizers\":[]}"),
        (b"E", b"{\"step\":0,\"optimizers\":[{\"class\":1,\"groups\":3}]}"),
        (b"N", b"[1]"),
        (b"H", b"[3]"),
        (b"S", b"[[0,\"start\",\"weight\",\"w\",-4]]"),
        (b"D", b"[[0,[3],1,0,2]]"),
        (b"D", b"[[0,[3],0,2,2]]"),
        (b"P", b"123"),
        (b"K", b""),
        (b"K", named(np.ones(3), "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")),
        (b"K", named(np.ones(3), "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }")),
        (b"K", named(np.ones(3), "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }")),
        (b"K", named(np.ones(3), "(" * 90)),
    ],
    ids=str,
)  # fmt: skip
def test_a_frame_that_no_trace_has_is_where_reading_ends(real, frame):
    folder, _, frames = real
    first = next(k for k, (kind, _) in enumerate(frames) if kind == b"O")
    held = read_and_compared(folder, written(folder, [*frames[:first], frame, *frames[first:]]))
    assert held is not None and held.notes[0].startswith("damaged") and "is not read" in held.notes[0]
    assert held.operations == ()


def test_a_frame_that_unpacks_to_far_more_than_a_trace_writes_is_refused(real):
    folder, _, frames = real
    held = read_and_compared(folder, written(folder, [*frames, (b"N", b'"' + b"a" * (1 << 27) + b'"')]))
    assert held is not None and held.notes[0].startswith("damaged")


def test_fingerprints_that_cannot_be_are_not_used(real):
    folder, _, frames = real
    changed = []
    for kind, payload in frames:
        if kind == b"P":
            rows = np.frombuffer(payload, PRINT).copy()
            rows["stats"]["zeros"] = -5
            payload = rows.tobytes()
        changed.append((kind, payload))
    held = read_and_compared(folder, written(folder, changed))
    assert held is not None and {each.mark for each in held.values} == {-1}


def test_tensors_of_another_size_than_their_fingerprint_are_not_used(real):
    folder, _, frames = real
    frames = [(kind, named(np.ones(777)) if kind == b"K" else payload) for kind, payload in frames]
    held = read_and_compared(folder, written(folder, frames))
    assert held is not None and not held.kept


def test_the_largest_float64_numbers_are_compared(tmp_path):
    for name, factor in (("a", 1.0), ("b", 2.0)):
        with bs.trace(tmp_path / name) as trace:
            torch.full((3000,), 1e200, dtype=torch.float64) * factor
            trace.step()
    assert bs.diff(tmp_path / "a", tmp_path / "b").cls == "semantics"


def test_nan_given_in_both_is_no_difference(tmp_path):
    for name in ("a", "b"):
        with bs.trace(tmp_path / name) as trace:
            torch.ones(3, requires_grad=True).masked_fill(torch.tensor([True, False, False]), float("nan"))
            trace.step()
    assert bs.diff(tmp_path / "a", tmp_path / "b").same


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_and_names_of_files_that_are_no_ranks_are_refused(real, tmp_path):
    os.mkfifo(tmp_path / "0.trace")
    with pytest.raises(bs.TraceError, match=r"no file|cannot be read|regular"):
        bs.open_trace(tmp_path)
    (tmp_path / "0.trace").unlink()
    (tmp_path / f"{'9' * 200}.trace").write_bytes(real[1])
    with pytest.raises(bs.TraceError, match="holds no trace"):
        bs.open_trace(tmp_path)


def of_two_ranks(folder: Path, frames: Frames, other: Frames, sharded: bool) -> Path:
    """Write the same trace as that of two ranks, where they hold halves of each weight."""
    ranks = folder / "ranks"
    ranks.mkdir(exist_ok=True)
    for rank, mine in enumerate((frames, other)):
        said = []
        for kind, payload in mine:
            if kind == b"H":
                payload = json.dumps({**json.loads(payload), "rank": rank, "world": 2}).encode()
            said.append((kind, payload))
            if kind == b"S" and sharded:
                said.append((b"D", json.dumps(halves(frames, json.loads(payload), rank)).encode()))
        written(folder, said)
        (folder / "bad" / "0.trace").replace(ranks / f"{rank}.trace")
    return ranks


def halves(frames: Frames, held: object, rank: int) -> list[object]:
    values = [row for kind, payload in frames if kind == b"V" for row in json.loads(payload)]
    weights = [row for row in held if row[2] in ("weight", "grad") and values[row[4]][0]]
    shapes = [(row[4], values[row[4]][0]) for row in weights]
    return [[number, [2 * first, *rest], 0, rank, 2] for number, (first, *rest) in shapes]


def test_two_ranks_that_hold_halves_are_joined(real):
    folder, _, frames = real
    found = bs.diff(of_two_ranks(folder, frames, frames, sharded=True), folder / "t")
    weights = [each for each in found.steps[0].points if each.what == "weight"]
    assert len(weights) == 14 and not found.same


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nonsense_of_one_rank_is_no_traceback(real, data):
    folder, _, frames = real
    sharded = data.draw(st.booleans())
    other = frames.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from([k for k, (kind, _) in enumerate(frames) if kind not in b"PKH"]))
        kind, payload = other[at]
        other[at] = kind, json.dumps(changed(json.loads(payload), data)).encode()
    pair = (other, frames) if data.draw(st.booleans()) else (frames, other)
    try:
        ranks = of_two_ranks(folder, *pair, sharded=sharded)
    except (LookupError, TypeError, ValueError):  # not even the test can make halves of that
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = [bs.diff(folder / "t", ranks), bs.diff(ranks, folder / "t"), bs.diff(ranks, ranks, rank=1)]
        except bs.TraceError as refusal:
            assert len(str(refusal)) < 600
            return
        for difference in found:
            assert difference.text() and json.loads(difference.to_json()) and difference.html()

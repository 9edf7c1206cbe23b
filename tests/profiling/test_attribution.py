"""Whose time it is, on traces written by hand: what a GPU does, threads, and any nesting at all."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backsight.profiling._torch import EVALUATED, Event, Trace, trace_of
from backsight.profiling.attribution import Attribution, Meaning
from backsight.profiling.row import merged
from backsight.profiling.subjects import Place
from backsight.profiling.timeline import Timeline

NOTHING_KNOWN = Meaning({}, {}, {}, {})


def event(name, start, end, *, thread=1, sequence=-1, forward_thread=0, correlation=0, call=False, note=False):
    return Event(name, start, end, thread, sequence, forward_thread, correlation, call, note)


def rows(events, on_device=None, meaning=NOTHING_KNOWN):
    return {row.op: row for row in merged(Attribution(Trace(events, on_device or {}), meaning).rows())}


@dataclass
class Kineto:
    """An event as PyTorch's profiler gives it."""

    called: str
    start: int
    duration: int
    device: str = "CPU"
    correlation: int = 0
    asked_by: int = 0
    activity: str = "cpu_op"
    annotation: bool = False

    def name(self):
        return self.called

    def start_ns(self):
        return self.start

    def end_ns(self):
        return self.start + self.duration

    def duration_ns(self):
        return self.duration

    def device_type(self):
        return SimpleNamespace(name=self.device)

    def correlation_id(self):
        return self.correlation

    def linked_correlation_id(self):
        return self.asked_by

    def activity_type(self):
        return self.activity

    def is_user_annotation(self):
        return self.annotation

    def start_thread_id(self):
        return 1

    def sequence_nr(self):
        return -1

    def fwd_thread_id(self):
        return 0

    def scope(self):
        return 0


def test_kernels_count_for_the_operation_that_asked_for_them():
    trace = trace_of(
        SimpleNamespace(
            events=lambda: [
                Kineto("aten::mm", 0, 100, correlation=7),
                Kineto("cudaLaunchKernel", 10, 20, correlation=70, asked_by=7, activity="cuda_runtime"),
                Kineto("cudaDeviceSynchronize", 200, 50, activity="cuda_runtime"),
                Kineto("gemm", 500, 3000, device="CUDA", asked_by=7, activity="kernel"),
                Kineto("epilogue", 3500, 1000, device="CUDA", asked_by=7, activity="kernel"),
                Kineto("my step", 400, 9000, "CUDA", asked_by=7, activity="gpu_user_annotation", annotation=True),
            ]
        )
    )
    (row,) = Attribution(trace, NOTHING_KNOWN).rows()
    assert (row.op, row.forward, row.device_forward) == ("aten::mm", pytest.approx(100e-9), pytest.approx(4000e-9))


def test_kernels_of_a_backward_that_runs_in_the_threads_of_a_device():
    found = rows(
        [
            event("aten::mm", 0, 10, sequence=5, correlation=1),
            event(f"{EVALUATED}MmBackward0", 20, 60, thread=9, sequence=5, forward_thread=1, correlation=2),
            event("MmBackward0", 22, 58, thread=9, sequence=5, forward_thread=1, correlation=3, call=True),
            event("aten::mm", 30, 40, thread=9, correlation=4),
        ],
        {1: 1000, 4: 2000},
    )
    row = found["MmBackward0"]
    assert (row.device_forward, row.device_backward) == (pytest.approx(1e-6), pytest.approx(2e-6))
    assert (row.forward, row.backward) == (pytest.approx(10e-9), pytest.approx(40e-9))
    assert list(found) == ["MmBackward0"]


def test_numbers_are_told_apart_by_their_threads():
    place = {"module a": Place("net", "a"), "module b": Place("net", "b")}
    attribution = Attribution(
        Trace(
            [
                event("module a", 0, 20, thread=1),
                event("aten::sin", 5, 10, thread=1, sequence=0),
                event("module b", 0, 20, thread=2),
                event("aten::cos", 5, 10, thread=2, sequence=0),
                event(f"{EVALUATED}CosBackward0", 30, 40, thread=1, sequence=0, forward_thread=2),
                event(f"{EVALUATED}SinBackward0", 40, 50, thread=1, sequence=0, forward_thread=1),
            ],
            {},
        ),
        Meaning(place, {}, {}, {}),
    )
    assert {(row.op, row.module) for row in attribution.rows()} == {("SinBackward0", "a"), ("CosBackward0", "b")}


@st.composite
def nested(draw):
    """Events of a thread as a profiler would see them: each ends before what it lies in."""
    events, clock = [], 0

    def step():
        nonlocal clock
        clock += draw(st.integers(1, 5))
        return clock

    def grow(depth):
        for _ in range(draw(st.integers(0, 3 - depth))):
            kind = draw(st.sampled_from(["op", "op", "node", "call", "module", "note", "optimizer"]))
            sequence, start = draw(st.integers(-1, 4)), step()
            grow(depth + 1)
            names = {
                "op": "aten::x",
                "node": f"{EVALUATED}XBackward0",
                "call": "XBackward0",
                "module": "module m",
                "note": "user",
                "optimizer": "Optimizer.step#X.step",
            }
            forward_thread = draw(st.sampled_from([1, 2])) if kind in ("node", "call") else 0
            note = kind in ("note", "optimizer")
            call = kind == "call"
            events.append(Event(names[kind], start, step(), 1, sequence, forward_thread, 0, call, note))

    grow(0)
    return events


def test_an_event_that_ends_with_another_is_in_it_and_one_that_begins_as_another_ends_is_beside_it():
    timeline = Timeline.of([event("outer", 0, 10), event("inner", 6, 10), event("next", 10, 12)])
    assert timeline.parent == [-1, 0, -1]
    assert timeline.alone == [6, 4, 2]


@given(nested())
def test_whatever_is_nested_in_what_no_time_counts_twice(events):
    attribution = Attribution(Trace(events, {}), Meaning({"module m": Place("net", "m")}, {}, {1: 9}, {}))
    spent = sum(row.total for row in attribution.rows())
    timeline = Timeline.of(events)
    outermost = [e for e, parent in zip(timeline.events, timeline.parent, strict=True) if parent < 0]
    assert spent == pytest.approx(attribution.covered[1] * 1e-9)
    assert spent <= sum(e.end - e.start for e in outermost) * 1e-9 + 1e-15
    assert all(row.total >= 0 for row in attribution.rows())

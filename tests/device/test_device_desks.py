"""Tensors of a device that a step meets one after the other, among tensors of the CPU, and in several streams."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from at_hand import DEVICE, finished, needs_triton, only_there

from backsight.recording.page import Page, Slot
from backsight.recording.reading import joined, skipped
from backsight.recording.statistics import measure, native

pytestmark = [
    pytest.mark.device("the statistics of CUDA tensors, one by one"),
    pytest.mark.usefixtures("quietly"),
    needs_triton,
    only_there,
]


def taken(tensors: list[torch.Tensor], histogram: bool = True) -> Page:
    """The page of tensors that are noted one after the other."""
    page = Page(0, histogram, None, native.sheet(histogram))
    for number, each in enumerate(tensors):
        page.note(Slot(str(number), "output", None), 0, each)
    page.finish()
    return page


def agree(page: Page, tensors: list[torch.Tensor]) -> None:
    """Compare with what one measuring of them all finds, and in which order."""
    assert [slot.name for slot, *_ in page.rows] == [str(number) for number in range(len(tensors))]
    assert not skipped(page.readings, page.histograms)
    found, expected = joined(page.readings, page.histograms), measure(tensors, histogram=page.histograms)
    for name in ("count", "mean", "m2", "min", "max", "zeros", "nans", "infs"):
        np.testing.assert_allclose(found.rows[name], expected.rows[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("histogram", [True, False])
def test_among_tensors_of_the_cpu(histogram):
    given = [torch.randn(300, 40, device=DEVICE), torch.randn(50), torch.randn(20, device=DEVICE).half()]
    given += [
        torch.arange(9, device=DEVICE),
        torch.randn(7),
        torch.randn(8),
        given[0],
        torch.rand(9, device=DEVICE) < 0.5,
    ]
    given += [torch.randn(300, 40, device=DEVICE).t(), torch.randn(4, device=DEVICE).to_sparse(), given[1], given[2]]
    agree(taken(given, histogram), given)


def test_of_a_whole_step_one_reading_is_made_and_nothing_is_waited_for():
    given = [torch.randn(100, device=DEVICE) for _ in range(50)]
    taken(given)
    finished()
    torch.cuda.set_sync_debug_mode("error")
    try:
        page = taken(given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(page.readings) == 1
    agree(page, given)


def test_what_is_written_to_or_freed_afterwards_was_measured_before():
    page, x = Page(0), torch.full((1 << 20,), 2.0, device=DEVICE)
    page.note(Slot("0", "output", None), 0, x)
    x.add_(1)
    page.note(Slot("1", "output", None), 0, x)
    del x
    y = torch.zeros(1 << 20, device=DEVICE)  # takes the same memory
    page.note(Slot("2", "output", None), 0, y)
    page.finish()
    assert joined(page.readings, True).rows["max"].tolist() == [2.0, 3.0, 0.0]


def test_in_several_streams():
    beside, given = torch.cuda.Stream(), []
    page = Page(0)
    for number in range(6):
        with torch.cuda.stream(beside if number % 3 == 2 else torch.cuda.current_stream()):
            given.append(torch.full((1 << 22,), float(number), device=DEVICE).mul_(2))
            page.note(Slot(str(number), "output", None), 0, given[-1])
    with torch.cuda.stream(beside):
        page.finish()
    assert joined(page.readings, True).rows["mean"].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_more_chunks_than_a_desk_holds():
    given = [torch.randn(30_000_000, device=DEVICE) for _ in range(2)] * 12 + [
        torch.randn(40_000_000, device=DEVICE) for _ in range(7)
    ]
    agree(taken(given), given)


def test_a_capture_in_the_midst_of_a_step_is_left_alone_and_nothing_before_it_is_lost():
    before, beside = torch.full((1000,), 2.0, device=DEVICE), torch.cuda.Stream()
    page, graph = Page(0, True, None, native.sheet(True)), torch.cuda.CUDAGraph()
    page.note(Slot("0", "output", None), 0, before)
    static = torch.ones(8, device=DEVICE)
    with torch.cuda.stream(beside):
        static.exp()  # warm
    finished()
    with torch.cuda.graph(graph):
        inside = static.exp()
        page.note(Slot("1", "output", None), 0, inside)
        page.note(Slot("2", "output", None), 0, torch.full((5,), 7.0, device="cpu"))
        page.note_all([(Slot("3", "grad", None), 0, inside)])
    page.note(Slot("4", "output", None), 0, before)
    page.finish()
    graph.replay()
    finished()
    assert [slot.name for slot, *_ in page.rows] == list("01234")
    assert set(skipped(page.readings, True)) == {1, 3}
    assert joined(page.readings, True).rows["max"].tolist() == [2.0, 7.0, 2.0]

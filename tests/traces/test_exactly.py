"""Operations that differ are run again in float64: noise and mistakes are told apart by measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

import backsight as bs
from backsight.traces.distance import Distances
from backsight.traces.exactly import measured_exactly
from backsight.traces.judging import judged


def traced(path, run, **options) -> bs.Trace:
    with bs.trace(path, **options) as trace:
        run()
        trace.step()
    return bs.open_trace(path)


def test_what_cancels_is_noise_however_large(tmp_path):
    terms = torch.randn(6, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1e5
    terms[-1] = -terms[:-1].sum(0) + torch.linspace(1, 2, 20)
    held = terms.float()

    def at_once():
        held.sum(0).exp()

    def one_by_one():
        first, *rest = held.unbind(0)
        for each in rest:
            first = first + each
        first.exp()

    difference = bs.diff(traced(tmp_path / "a", at_once), traced(tmp_path / "b", one_by_one))
    assert difference.cls == "noise", difference
    assert difference.origin.reasons[0].startswith("in float64 both compute the same")
    assert difference.origin.origin.apart.relative > 1e-3


def test_a_sum_is_noise_by_measurement_and_not_by_its_condition(tmp_path):
    x = torch.randn(8, 100, generator=torch.Generator().manual_seed(0))
    x[:, -1] = -x[:, :-1].sum(1) + 1e-5
    a = traced(tmp_path / "a", lambda: torch.sum(x, 1), values=True)
    number = a.operations[0].outputs[0]
    b = with_result(a, a.kept[a.values[number].mark] * np.float32(1 + 2e-3))
    found = bs.diff(a, b).origin
    assert found is not None and found.reasons[0].startswith("in float64 both compute the same") == (
        found.cls == "noise"
    )


def with_result(trace: bs.Trace, array: np.ndarray, place: int = -1) -> bs.Trace:
    """The same trace with another result of an operation, as of another kernel."""
    mark = trace.values[trace.operations[place].outputs[0]].mark
    prints = trace.prints.copy()
    prints[mark]["hash"] += 1
    return replace(trace, prints=prints, kept={**trace.kept, mark: array})


def test_a_kernel_that_computes_something_else_is_named_by_its_program(tmp_path):
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    a = traced(tmp_path / "a", lambda: x @ y)
    right = a.kept[a.values[a.operations[0].outputs[0]].mark]
    wrong = right.copy()
    wrong[0, 0] += 0.5
    for difference, said in (
        (bs.diff(a, with_result(a, wrong)), "and B "),
        (bs.diff(with_result(a, wrong), a), "A is "),
    ):
        assert difference.cls == "semantics"
        (reason,) = [each for each in difference.origin.reasons if "in float64" in each]
        size = float(reason.partition(said)[2].removeprefix("a relative ").split()[0])
        assert 1e-3 < size < 1
    rounded = right * np.float32(1 + 3e-7)
    assert bs.diff(a, with_result(a, rounded)).cls == "noise"


def test_another_argument_is_measured_with_the_same_inputs(tmp_path):
    x = torch.randn(6, 8)
    traces = [traced(tmp_path / str(eps), lambda eps=eps: torch.layer_norm(x, (8,), eps=eps)) for eps in (1e-5, 1e-2)]
    difference = bs.diff(*traces)
    assert difference.cls == "semantics"
    exactly = measured_exactly(difference.origin.origin, Distances(*traces))
    assert exactly is not None and not exactly.same_formula and max(exactly.errors) < 1e-6
    assert abs(exactly.formula / difference.origin.origin.apart.relative - 1) < 1e-2


def test_what_was_not_kept_or_cannot_be_run_again_is_judged_as_before(tmp_path):
    large = torch.randn(2000)
    for run in (lambda: large.exp(), lambda: torch.rand(5), lambda: torch.fft.fft(torch.randn(4).double())):
        a = traced(tmp_path / "a", run)
        number = a.operations[-1].outputs[0]
        shape = a.values[number].shape
        difference = bs.diff(a, with_result(a, np.zeros(shape, np.float32)))
        for origin in (each.origin for step in difference.steps for each in step.origins):
            assert measured_exactly(origin, Distances(a, a)) is None or origin.a.short == "randn"
            assert judged(origin, Distances(a, a), False, {}).cls


def test_operators_that_do_more_than_compute_are_never_run(tmp_path, monkeypatch):
    a = traced(tmp_path / "a", lambda: torch.ones(3) + 1)
    found = bs.diff(a, with_result(a, np.zeros(3, np.float32))).origin.origin
    assert measured_exactly(found, Distances(a, a)) is not None
    asked = []
    monkeypatch.setattr(torch.ops, "aten", asked.append)  # nothing may be asked of it
    for op in ("aten.from_file.default", "aten.set_.source_Storage", "mine.add.Tensor", "add"):
        assert measured_exactly(replace(found, a=replace(found.a, op=op)), Distances(a, a)) is None
    assert not asked

"""A healthy step of a real model has no finding graver than a note: audited by hand, under a watch, and when run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import healthy_branches
import healthy_loops
import healthy_methods
import healthy_nets
import pytest
import torch

import backsight as bs
from backsight.diagnosis.births import told
from backsight.launch.first_steps import FirstSteps

Program = Callable[[Callable[[bs.Report], None]], None]


def grave(findings: Any) -> list[str]:
    return [str(finding) for finding in findings if finding.severity != "note"]


def programs() -> list[Any]:
    modules = (healthy_loops, healthy_nets, healthy_branches, healthy_methods)
    found = [program for module in modules for program in module.PROGRAMS]
    try:
        import healthy_transformers
    except pytest.skip.Exception:
        return found
    return found + healthy_transformers.PROGRAMS


PROGRAMS = programs()
"""`make test` audits some by hand, others under a watch, and runs others."""


def each(programs: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", programs, ids=lambda program: program.__name__)


@pytest.fixture(autouse=True)
def seeded_on_one_thread() -> Iterator[None]:
    """Small models train faster on one thread, where several tests run at once."""
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Audits:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, report: bs.Report) -> None:
        assert not grave(report), f"audit {self.count}:\n{report}"
        self.count += 1


@pytest.mark.one_in(4)
@each(PROGRAMS)
def test_an_audit_of_every_step_finds_nothing(program: Program) -> None:
    check = Audits()
    program(check)
    assert check.count >= 3


@pytest.mark.one_in(4, first=1)
@each(PROGRAMS)
def test_under_a_watch_an_audit_finds_nothing_and_no_birth_is_to_blame_for_anything(program: Program) -> None:
    check = Audits()
    with bs.watch(nonfinite=True) as watch:
        program(check)
    assert check.count >= 3
    assert told(watch.nonfinite, watch.lost) is None


@pytest.mark.one_in(4, first=2)
@each(PROGRAMS)
def test_running_it_finds_nothing(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backsight.audit", lambda *roots, **options: bs.Report(()))
    steps = FirstSteps()
    try:
        program(lambda report: None)
    finally:
        steps.stop()
    assert not grave(steps.findings.values())
    assert steps.audits >= min(3, steps.steps)

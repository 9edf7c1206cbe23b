"""How the tests of rules read a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

import backsight as bs


def of(report: bs.Report, code: str) -> list[bs.Finding]:
    return [finding for finding in report.findings if finding.code == code]


def one(report: bs.Report, code: str) -> bs.Finding:
    (finding,) = of(report, code)
    return finding


def codes(report: bs.Report) -> list[str]:
    return [finding.code for finding in report.findings]


def mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


def batches(count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.randn(3, 4)


def last(step: Callable[[], bs.Report], count: int) -> bs.Report:
    """The report of the last of several steps."""
    return [step() for _ in range(count)][-1]

"""Where nothing is wrong nothing is said: healthy programs under an exact watch, with every warning heard."""

from __future__ import annotations

import warnings
from typing import Any

import healthy_branches
import healthy_loops
import healthy_methods
import healthy_nets
import pytest
import torch
from recorded import grave

import backsight as bs

MODULES = (healthy_loops, healthy_nets, healthy_branches, healthy_methods)
PROGRAMS = [program for module in MODULES for program in module.PROGRAMS]


def architectures() -> list[Any]:
    try:
        import healthy_architectures
    except pytest.skip.Exception:
        return []
    return list(healthy_architectures.ARCHITECTURES)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= 40
    assert len(architectures()) in (0, *range(30, 100))  # none where transformers is not installed


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_nothing_is_explained_or_found_in_a_healthy_program(program: Any) -> None:
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with bs.watch(level="exact"), bs.explaining() as explaining:
            program(lambda report: said.extend(grave(report)))
    assert said == []
    assert explaining.findings == ()


@pytest.mark.parametrize("architecture", architectures(), ids=lambda each: each.model)
def test_nothing_is_found_in_the_first_step_of_a_transformer(architecture: Any) -> None:
    model = architecture.build()
    optimizer = torch.optim.AdamW(model.parameters())
    with bs.watch(level="exact"), bs.explaining() as explaining:
        loss = model(**architecture.batch()).loss
        report = bs.audit(loss)
        loss.backward()
        optimizer.step()
    assert grave(report) == []
    assert explaining.findings == ()

"""What stays alive is only followed where one thread trains."""

from __future__ import annotations

import threading

import torch

from backsight.launch.keeping import Keeping


def _steps(keeping: Keeping, kept: list[torch.Tensor], number: int) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(number):
        kept.append(model(torch.ones(3, 2)).sum())
        keeping.made(kept[-1].grad_fn)
        keeping.stepped(optimizer)


def test_graphs_that_one_thread_keeps_are_followed() -> None:
    keeping = Keeping()
    _steps(keeping, [], 10)
    assert keeping._leaks is not None


def test_steps_are_counted_from_the_first_and_not_from_where_it_was_looked() -> None:
    keeping = Keeping()
    _steps(keeping, [], 40)
    (finding,) = keeping.findings
    assert str(finding.evidence[0]).startswith("It held 16 graphs after 16 steps, 24 after 24 and 40 after 40: 1 graph")


def test_and_not_where_another_thread_steps_as_well() -> None:
    keeping, kept = Keeping(), list[torch.Tensor]()
    _steps(keeping, kept, 4)
    other = threading.Thread(target=_steps, args=(keeping, kept, 4))
    other.start()
    other.join()
    _steps(keeping, kept, 20)
    assert keeping._leaks is None and keeping.findings == ()


def test_graphs_of_another_thread_are_no_sign_of_a_leak():
    """They live beyond the steps of the thread that is faster."""
    model, keeping, kept = torch.nn.Linear(1, 1), Keeping(), list[torch.Tensor]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def forward() -> None:
        kept.append(model(torch.ones(1, 1)))
        keeping.made(kept[-1].grad_fn)

    for _ in range(8):
        keeping.stepped(optimizer)
        thread = threading.Thread(target=forward)
        thread.start()
        thread.join()
    assert keeping._leaks is None

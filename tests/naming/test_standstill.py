"""At a standstill of the program, searches share what they find out, and tell the same as each by itself."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch

from backsight.naming import search, standstill
from backsight.naming.walk import Walk

ASKED: tuple[dict[str, Any], ...] = (
    {"collect": (torch.nn.Module,)},
    {"collect": (torch.optim.Optimizer,)},
    {"collect": (torch.Tensor,), "where": lambda tensor: tensor.requires_grad},
    {"collect": (dict, list), "where": lambda held: len(held) == 2},
    {"collect": (dict,), "where": lambda held: "weight" in held and "bias" in held},
)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    begin = Walk.__init__

    def noted(self: Walk, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(1)

    monkeypatch.setattr(Walk, "__init__", noted)
    return made


def _paths(asked: dict[str, Any]) -> list[str]:
    """What is found in the variables of the test."""
    paths = [name.path for _, name in search((), **asked).found]
    return [path for path in paths if path.startswith(("net", "optimizer", "held"))]


def test_all_that_collect_share_one_walk_and_find_what_each_finds_alone(walks: list[int]) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    optimizer = torch.optim.Adam(net.parameters())
    held = {"pair": [net[0].weight, torch.ones(2)], "other": optimizer}
    alone = [_paths(asked) for asked in ASKED]
    assert len(walks) == len(ASKED)
    with standstill():
        together = [_paths(asked) for asked in ASKED]
    assert len(walks) == len(ASKED) + 1 and held["other"] is optimizer
    assert alone == together
    assert together[0] == ["net", "net.0", "net.1"] and together[1] == ["optimizer"] and "held" in together[3]


def test_those_that_ask_for_names_or_begin_elsewhere_walk_by_themselves(walks: list[int]) -> None:
    net = torch.nn.Linear(2, 2)
    with standstill():
        search((), collect=(torch.nn.Module,))
        assert search([net.weight]).names[0][0].path == "net.weight"
        frame = (lambda inner: __import__("sys")._getframe())(torch.nn.ReLU())
        assert any(name.path == "inner" for _, name in search((), collect=(torch.nn.Module,), frames=(frame,)).found)
        del frame
    assert len(walks) == 3


def test_a_walk_that_left_out_data_is_not_shared(walks: list[int]) -> None:
    data = [{"text": str(k), "label": (k, None)} for k in range(5_000)]
    with standstill():
        search((), collect=(torch.optim.Optimizer,))
        found = search((), collect=(dict,), where=lambda each: each.get("text") == "17").found
    assert [name.path for each, name in found if each is data[17]] == ["data[17]"]
    assert len(walks) == 2


def test_what_is_assigned_after_it_is_found_at_the_next() -> None:
    with standstill():
        search((), collect=(torch.nn.Bilinear,))
    late = torch.nn.Bilinear(2, 2, 2)
    with standstill():
        assert [(each is late, name.path) for each, name in search((), collect=(torch.nn.Bilinear,)).found] == [
            (True, "late")
        ]


def test_nothing_is_kept_alive_beyond_it() -> None:
    tensor, net = torch.ones(3), torch.nn.Linear(2, 2)
    dead = weakref.ref(tensor), weakref.ref(net)
    collecting = gc.isenabled()
    gc.disable()
    try:
        with standstill():
            search((), collect=(torch.nn.Module,))
            search([tensor])
        del tensor, net
        assert [ref() for ref in dead] == [None, None]
    finally:
        if collecting:
            gc.enable()


def test_another_thread_does_not_share_it(walks: list[int]) -> None:
    with standstill():
        search((), collect=(torch.nn.Module,))
        thread = threading.Thread(target=lambda: search((), collect=(torch.nn.Module,)))
        thread.start()
        thread.join()
    assert len(walks) == 2

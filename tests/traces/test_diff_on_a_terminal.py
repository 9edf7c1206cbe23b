"""What `backsight diff` shows on a terminal: the same as its text, with code in frames and bars in color."""

from __future__ import annotations

import re

import torch
from torch import nn

import backsight as bs
from backsight.text.console import printed
from backsight.traces.difference import Parted, counts, curve
from backsight.traces.growth import Point
from backsight.traces.terminal import in_color

ANSI = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


def shown(difference: bs.Difference, color: bool = True, width: int = 160) -> str:
    return printed(*in_color(difference), width=width, color=color, terminal=True)


def test_it_says_what_the_text_says(traced):
    difference = bs.diff(traced(), traced(eps=1e-3))
    text = shown(difference, color=False)
    assert difference.text().splitlines()[0] in text and difference.first.title in text
    folded = [line.strip() for line in difference.text().splitlines() if line.startswith(("step ", "  by module"))]
    assert folded and all(line in text for line in folded)
    assert re.search(r"❱ \d+ │ .*self\.norm\(x\)", text)  # the line of the program in a frame


def test_bars_are_told_with_the_first_and_the_largest_by_name():
    first, small, large = Point(0, "weight", "a", 0.5), Point(0, "weight", "b", 1e-6), Point(0, "weight", "c", 1.1)
    assert curve([first, small, large]) == "█▃█ 5.0e-01 in a, the first; 1.1e+00 in c, the largest"
    assert curve([large, small]) == "█▃ 1.1e+00 in c, the largest"


def test_without_color_there_is_none(traced):
    assert "\x1b[" not in shown(bs.diff(traced(), traced(scale=2.0)), color=False)


def test_bars_are_green_yellow_and_red_by_distance(traced):
    difference = bs.diff(traced(), traced(scale=2.0))
    text = shown(difference)
    assert "\x1b[32m·" in text and re.search("\x1b\\[31m[▇█]", text)
    plain = [line.rstrip() for line in ANSI.sub("", text).splitlines()]
    assert plain == shown(difference, color=False).splitlines()


def test_names_cannot_steer_the_terminal(tmp_path):
    for name, eps in (("a", 1e-5), ("b", 1e-2)):
        torch.manual_seed(0)
        model = nn.Module()
        model.add_module("\x1b[2Jx", nn.LayerNorm(4, eps=eps))
        with bs.trace(tmp_path / name, model=model) as trace:
            getattr(model, "\x1b[2Jx")(torch.randn(3, 4)).sum().backward()
            trace.step()
    difference = bs.diff(tmp_path / "a", tmp_path / "b")
    assert difference.cls == "semantics"
    assert "\x1b[2J" not in shown(difference, color=False) and "[2Jx" in shown(difference, color=False)


def test_one_operation_differs_and_several_differ():
    assert counts(Parted(0, 273, 1, 0, 0, (), ())) == (
        "273 operations agree to the last bit, 1 differs only because its inputs do"
    )
    assert counts(Parted(0, 273, 0, 0, 0, (), ())) == "273 operations agree to the last bit"
    assert counts(Parted(0, 1, 2, 0, 0, (), ())) == (
        "1 operation agrees to the last bit, 2 differ only because their inputs do"
    )

"""The page of a difference in a browser: both lines side by side, the graph colored by distance, curves of growth."""

from __future__ import annotations

import re

import pytest
import torch

import backsight as bs

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FILL = "(box) => getComputedStyle(box.querySelector('.n')).fill"


def colors(page):
    """Return the colors of the boxes of the picture that is open, by the first word on each."""
    boxes = page.locator(".picture:visible g[data-box]").all()
    return {box.locator("text").first.text_content(): box.evaluate(FILL) for box in boxes if box.locator(".n").count()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_boxes_before_the_first_difference_have_no_color_and_those_behind_it_have(traced, visit, scheme):
    page = visit(bs.diff(traced((0, 1)), traced((0, 1), scale=0.5)).html(), color_scheme=scheme)
    held = colors(page)
    assert held["0"] == held["1"], "the blocks, before the scale"
    assert held["model.head"] != held["0"] and held["NllLossForward"] != held["0"]
    assert "The trainings diverge here." in page.locator(".picture:visible").inner_text()


def test_the_first_operation_that_differs_is_marked_and_its_module_open(traced, visit):
    page = visit(bs.diff(traced((0,)), traced((0,), eps=1e-2)).html())
    marked = page.locator(".picture g[data-box]", has=page.locator(".pin"))
    assert marked.locator("text").first.text_content() == "norm"
    assert "down" in colors(page), "block 0 is open"


def test_a_mistake_in_the_backward_pass_colors_what_its_gradients_reach(traced, visit):
    page = visit(bs.diff(traced((0,)), traced((0,), factor=0.5)).html())
    held = colors(page)
    assert "difference of gradients" in page.locator(".picture").inner_text()
    assert held["model.head"] != held["0"] == held["1"], (
        "gradients reach the blocks after the mistake, and the head before it"
    )


def test_growth_is_drawn_by_depth_and_by_step(traced, visit):
    page = visit(bs.diff(traced((0, 1, 3)), traced((0, 1, 3), scale=0.5)).html())
    steps = page.locator(".plot", has_text="By step").first
    assert steps.locator("polyline").count() == 4
    assert steps.locator(".ends span").all_inner_texts() == ["step 0", "step 3"]
    depth = page.locator(".plot:visible", has_text="Results of modules")
    told = depth.locator("rect title").evaluate_all("(titles) => titles.map((each) => each.textContent)")
    assert told[0] == "model.blocks.0.norm: bit-identical"
    assert re.fullmatch(r"model\.head: \d\.\de-\d\d", told[-2])
    heights = depth.locator("rect").evaluate_all("(bars) => bars.map((each) => each.getBoundingClientRect().height)")
    assert 0 < heights[0] < heights[-1]


def test_what_differs_within_a_line_is_marked(tmp_path, visit):
    def run(path, source):
        torch.manual_seed(0)
        (tmp_path / f"{path}.py").write_text(source)
        scope = {"torch": torch}
        with bs.trace(tmp_path / path) as trace:
            exec(compile(source, str(tmp_path / f"{path}.py"), "exec"), scope)
            trace.step()
        return trace.path

    program = (
        "w = torch.ones(4, requires_grad=True)\ny = torch.nn.functional.elu(w - 2, alpha={})\ny.sum().backward()\n"
    )
    page = visit(bs.diff(run("a", program.format("1.0")), run("b", program.format("0.5"))).html())
    assert page.locator(".side mark").all_inner_texts()[:2] == ["1.0", "0.5"]
    assert "alpha=1.0)" in page.locator(".side pre").first.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_page_fits_its_screen(traced, visit, scheme, size):
    difference = bs.diff(traced((0, 1)), traced((0, 1), scale=0.5))
    page = visit(difference.html(), viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_the_same_has_no_picture(traced, visit):
    page = visit(bs.diff(traced((0,)), traced((0,))).html())
    assert "agree to the last bit" in page.locator("h1").inner_text()
    assert page.locator(".picture, .plot").count() == 0


def test_lines_of_both_programs_stand_side_by_side(traced, visit):
    page = visit(bs.diff(traced((0,)), traced((0,), scale=0.5)).html(), viewport={"width": 1440, "height": 900})
    a, b = page.locator(".side").nth(0), page.locator(".side").nth(1)
    assert "B only" in b.inner_text() and "x = x * self.scale" in b.inner_text()
    assert abs(a.bounding_box()["y"] - b.bounding_box()["y"]) < 1
    assert a.bounding_box()["x"] + a.bounding_box()["width"] <= b.bounding_box()["x"] + 1
    page.set_viewport_size({"width": 390, "height": 844})
    assert b.bounding_box()["y"] >= a.bounding_box()["y"] + a.bounding_box()["height"] - 1

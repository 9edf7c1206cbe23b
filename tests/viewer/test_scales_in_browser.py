"""Which scale a chart has, what it says of it, and whose numbers are not finite; what is compared with what."""

from __future__ import annotations

import re

import numpy as np
import pytest
from looking import at, drawn, expect

from backsight.runs import STATISTICS, RunWriter
from backsight.viewer import Library, Server

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STEPS = 100


def write(folder, *, losses, lr=(0.1,), program="train", tensor="w", norms=None, every=1, arguments=()):
    """A run with these losses and norms of one gradient; `every` is how often a number of its own is marked."""
    environment = {"arguments": list(arguments)}
    with RunWriter(folder, config={"program": program}, environment=environment) as writer:
        writer.tree([{"name": "m", "type": program.title(), "children": []}])
        groups = [{"tensors": 1, "lr": each, "decoupled_weight_decay": str(lr[0])} for each in lr]
        writer.event("optimizer", step=0, optimizer="SGD", groups=groups)
        number = writer.tensor(tensor, "grad", "m", (2,), "float32")
        for step, loss in enumerate(losses):
            rows = np.zeros(1, STATISTICS)
            rows["count"], rows["mean"] = 2, 1 if norms is None else norms[step]
            writer.append(step, [number], rows)
            writer.mark(step, loss=float(loss), **({} if step % every else {"rare": float(loss)}))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    folder = tmp_path_factory.mktemp("scales")
    falling = np.linspace(2, 0.5, STEPS)
    spike = np.where(np.arange(STEPS) == 20, 40, falling)
    early = np.where(np.arange(STEPS) <= 8, 0.1, 20)
    write(folder / "good", losses=falling, arguments=["--lr", "0.1"])
    write(folder / "spike", losses=spike, lr=(0.2,), norms=np.where(np.arange(STEPS) < 50, 1, 0))
    write(folder / "far", losses=falling * 1e6, lr=(5,))
    write(folder / "early", losses=early, lr=(0.3,))
    write(folder / "nan", losses=np.where(np.arange(STEPS) < 66, falling, np.nan), lr=(0.01, 0.05), every=16)
    write(folder / "stranger", losses=falling / 10, program="other", tensor="v")
    with Server(Library(folder)) as server:
        yield server


PHONE = {"viewport": {"width": 390, "height": 844}}


def said(page, title):
    return page.locator("figure.panel", has=page.locator("h3", has_text=title)).first.locator("figcaption").inner_text()


def test_a_spike_does_not_press_all_else_flat(look):
    page = look("#/spike/metrics")
    assert "log scale" in said(page, "loss")
    page.get_by_label("scale", exact=True).select_option("0")
    assert "log scale" not in said(page, "loss")
    assert "log=0" in at(page)
    views = look.each("#/good/metrics", "#/far/metrics", "#/far/compare?with=good", "#/spike/heatmap")
    assert "log scale" not in said(next(views), "loss")
    assert "log scale" not in said(next(views), "loss")
    assert "log scale" in said(next(views), "loss")
    expect(next(views).locator(".marks h3")).to_have_text("loss, log scale")


def test_the_line_in_the_list_has_the_scale_of_the_chart(look):
    page = look("")
    lines = {row.get_attribute("aria-label") for row in page.locator(".spark canvas").all()}
    assert len([each for each in lines if "log scale" in each]) == 1
    expect(page.locator("tr", has_text="spike").locator(".scaled")).to_have_text("log scale")
    expect(page.locator("tr", has_text="spike").locator(".sparkline > span").last).to_have_text(
        re.compile("^loss [0-9]")
    )


def test_zeros_stand_at_the_bottom_edge_of_a_log_scale(look):
    page = look("#/spike/compare?with=good")
    assert "log scale" in said(page, "w: norm of gradients")
    assert "0 at the bottom edge" in said(page, "w: norm of gradients")


def test_outliers_are_counted_where_they_are_left_out(look):
    page = look("#/spike/metrics?calm=1&log=0")
    assert "2 outliers out of view" in said(page, "loss")
    assert "out of view" not in said(look("#/spike/metrics"), "loss")


def test_what_is_not_finite_has_the_color_of_its_run(look):
    page = look("#/nan/compare?with=good")
    shown = """(board) => { const pen = board.getContext("2d"), d = pen.getImageData(0, 7, board.width, 6).data,
        found = new Set();
        for (let k = 0; k < d.length; k += 4) if (d[k + 3] > 250) found.add(`rgb(${d[k]}, ${d[k + 1]}, ${d[k + 2]})`);
        return [...found]; }"""
    board = page.locator("figure.panel", has=page.locator("h3", has_text="loss")).first.locator("canvas")
    dot = page.locator(".verdict tr", has_text="nan").locator("i")
    color = dot.evaluate("(dot) => getComputedStyle(dot).backgroundColor")
    assert color in board.evaluate(shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_run_has_the_color_of_errors(look, scheme):
    page = look("", color_scheme=scheme)
    colors = """() => { const style = getComputedStyle(document.documentElement);
        return ["bad", "nonfinite", "line1", "line2", "line3", "line4", "line5", "line6"]
            .map((name) => style.getPropertyValue(`--${name}`).trim()); }"""
    found = page.evaluate(colors)
    assert len(set(found)) == len(found) == 8


def test_what_is_measured_now_and_then_says_how_often(look):
    page = look("#/nan/metrics")
    assert "every 16 steps" in said(page, "rare")
    assert "every" not in said(page, "loss")


def test_charts_of_a_row_stand_side_by_side_whatever_their_titles(look):
    page = look("#/nan/metrics", viewport={"width": 1000, "height": 800})
    boards = page.locator(".cards canvas")
    assert boards.nth(0).bounding_box()["y"] == boards.nth(1).bounding_box()["y"]
    titles = page.locator(".cards h3")
    assert titles.nth(0).bounding_box()["y"] == titles.nth(1).bounding_box()["y"]


def test_losses_of_different_programs_are_not_ranked(look):
    page = look("#/good/compare?with=stranger")
    expect(page.locator(".verdict h2")).to_have_text("Different programs")
    assert page.locator(".verdict .best").count() == 0
    for name, values in (("script", ["train", "other"]), ("model", ["Train", "Other"])):
        assert page.locator("table.settings tr", has_text=name).inner_text().split("\t")[1:] == [name, *values]
    assert "different scripts or parameters, so there is no step" in page.locator("main").inner_text()


def test_a_run_that_was_better_at_first_is_said_to_have_been(look):
    page = look("#/good/compare?with=early")
    assert "differs from the best" in page.locator(".verdict thead").inner_text()
    assert ", lower until step 8" in page.locator(".verdict tr", has_text="early").inner_text()


def test_the_top_says_how_many_runs_are_compared(look):
    page = look("#/good/compare?with=early,nan")
    assert page.locator(".top h1").inner_text() == "good"
    assert page.locator(".top h1 + .soft").inner_text() == "and 2 others"
    assert page.locator(".top .steps").count() == page.locator(".top .state").count() == 0


def test_groups_that_differ_are_told_in_the_list(look):
    page = look("")
    assert "0.01, 0.05" in page.locator("tr", has_text="nan").first.locator(".chosen").inner_text()


def test_runs_to_compare_with_are_ticked(look):
    page = look("#/good/compare")
    compare = page.get_by_role("button", name="compare")
    assert compare.is_disabled()
    assert "lr\u00a00.3" in page.locator(".choice", has_text="early").inner_text()
    page.get_by_label("early").check()
    page.get_by_label("nan").check()
    compare.click()
    drawn(page)
    assert at(page) == "#/good/compare?with=early%2Cnan"


def test_arguments_stand_as_they_were_given(look):
    text = look("#/good/about").locator("main").inner_text()
    assert "arguments\n--lr 0.1" in text
    assert "Environment" in text
    assert "damage" not in text


def test_tables_of_several_runs_fit_a_narrow_screen(look):
    page = look("#/good/compare?with=early,nan,spike", **PHONE)
    losses, settings = page.locator(".compared .table").all()
    assert losses.evaluate("(t) => t.scrollWidth <= t.clientWidth && t.scrollHeight <= t.clientHeight")
    # Names of settings are whole, so that this one is scrolled sideways, and the page is not.
    assert settings.evaluate("(t) => getComputedStyle(t).overflowX") == "auto"
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_what_is_touched_is_large_enough(look):
    small = """() => [...document.querySelectorAll("button, a[href], summary, select, input")]
        .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
        .filter(([, box]) => box.width && box.x >= 0 && box.height < 24).map(([text]) => text)"""
    views = ("", "#/nan/metrics", "#/nan/compare?with=good", "#/nan/findings", "#/nan/about")
    for page in look.each(*views, **PHONE):
        assert page.evaluate(small) == [], at(page)


def test_the_top_of_the_list_has_room_below_its_buttons(look):
    page = look("", **PHONE)
    top, button = page.locator(".top").bounding_box(), page.locator(".top .ask").bounding_box()
    assert top["y"] + top["height"] - button["y"] - button["height"] >= 6


def test_code_is_not_cut_on_a_narrow_screen(look):
    page = look("#/nan/memory", **PHONE)
    assert page.locator("pre").evaluate("(pre) => pre.scrollWidth <= pre.clientWidth")


def test_numbers_of_findings_are_written_as_in_charts(look):
    page = look("#/good/findings")
    told = {"code": "BS301", "severity": "note", "title": "From -1.085e+04 to -0.5.", "exact": True, "source": None}
    told |= {
        "evidence": ["Its input is negative (-85.72 to -0.07789), as `f(-1)` or sum(-1)."],
        "statements": [None],
        "fix": "Use `backsight run`, eps=1e-05 or dim=-1.",
        "lines": [],
        "tensors": [],
        "step": None,
    }
    answer = {"findings": [told], "looked_at": "all", "code": {}}
    page.route("**/api/ask/findings**", lambda route: route.fulfill(json=answer))
    page.reload()
    found = page.locator(".finding")
    expect(found.locator("h3")).to_have_text("From −10,850 to −0.5.")
    expect(found.locator(".evidence")).to_have_text("Its input is negative (−85.72 to −0.07789), as f(-1) or sum(-1).")
    expect(found.locator(".fix")).to_have_text("Fix: Use backsight run, eps=1e-05 or dim=-1.")
    expect(found.locator(".fix code")).to_have_text("backsight run")


def test_a_dialog_scrolls_within_its_corners(look):
    page = look("#/nan/metrics", viewport={"width": 900, "height": 300})
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    assert dialog.evaluate("(dialog) => getComputedStyle(dialog).overflow") == "hidden"
    assert dialog.locator("> div").evaluate("(inner) => inner.scrollHeight > inner.clientHeight")
    assert dialog.locator("kbd").first.evaluate("(key) => getComputedStyle(key).borderTopWidth") == "1px"
    page.keyboard.press("?")
    assert dialog.count() == 0


def test_points_of_runs_stand_clear_of_the_frame(look):
    page = look("#/good/compare?with=early,spike")
    board = page.get_by_label("loss at the end over lr, a point for each run")
    lowest = """(board) => { const d = board.getContext("2d").getImageData(0, 0, board.width, board.height).data;
        let low = 0;
        for (let k = 0; k < d.length; k += 4)
            if (Math.abs(d[k] - d[k + 2]) > 60) low = Math.floor(k / 4 / board.width);
        return low; }"""
    assert board.evaluate(lowest) < board.bounding_box()["height"] - 20 - 6
    assert board.bounding_box()["width"] > 1280 / 3


def test_on_a_phone_the_name_of_a_run_has_the_whole_width_above_how_it_goes(look):
    row = look("", **PHONE).locator("tbody tr", has_text="stranger")
    name, table = row.locator(".first").bounding_box(), row.bounding_box()
    assert name["width"] > 0.85 * table["width"]
    assert all(each.bounding_box()["y"] >= name["y"] + name["height"] for each in row.locator("td.right:visible").all())


def test_the_losses_of_a_run_share_a_chart_and_those_of_several_runs_do_not(look, tmp_path):
    pytest.importorskip("uvicorn")
    for name in ("one", "two"):
        with RunWriter(tmp_path / name) as writer:
            number = writer.tensor("w", "grad", "", (2,), "float32")
            for step in range(STEPS):
                writer.append(step, [number], np.zeros(1, STATISTICS))
                writer.mark(step, loss=2 - step / STEPS, **({"val_loss": 2 + step / STEPS} if step % 10 == 9 else {}))
    with Server(Library(tmp_path)) as server:
        page = look("#/one/metrics", server=server)
        assert page.locator("figure.panel h3").all_inner_texts().count("losses") == 1
        lines = page.locator("figure.panel .names > span").all_inner_texts()
        assert ["".join(each.split()) for each in lines] == ["loss1.01", "val_loss2.99"]
        titles = look("#/one/compare?with=two", server=server).locator(".cards h3").all_inner_texts()
        assert titles[:2] == ["loss", "val_loss"]

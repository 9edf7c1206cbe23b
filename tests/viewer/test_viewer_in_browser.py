"""The viewer as people use it, in Chromium: every view, by mouse and by keys, and no complaint on the console."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch
from looking import at, drawn, expect, later, shades
from recorded_runs import HOSTILE
from torch import nn

import backsight as bs
from backsight.runs import STATISTICS, RunWriter
from backsight.viewer import Library, Server

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_the_token_leaves_the_address(look):
    page = look()
    assert "token" not in page.url


def test_runs_are_listed_with_how_they_went(look):
    page = look()
    names = page.locator("td.first a").all_inner_texts()
    assert names == ["hostile", "short", "broken", "other", "again", "first"]
    row = page.locator("tr", has=page.get_by_role("link", name="broken", exact=True))
    assert "finished" in row.inner_text()
    assert "loss NaN" in row.locator(".sparkline").inner_text()
    assert shades(page, "tr:nth-child(3) .sparkline canvas") > 1
    expect(row.locator(".severity")).to_have_text("1 error")
    row.locator(".severity").click()
    page.get_by_text("The gradient of head.bias first contained NaN at step 30.").wait_for()


def test_a_run_is_found_by_typing(look):
    page = look()
    page.keyboard.press("/")
    page.keyboard.type("ro")
    assert page.locator("td.first a").all_inner_texts() == ["broken"]
    assert page.locator("input[type=search]").evaluate("box => box === document.activeElement")
    page.keyboard.type("zz")
    assert page.get_by_text("No match").is_visible()


def test_a_click_anywhere_in_a_row_opens_its_run_but_its_box_is_only_ticked(look):
    page = look()
    row = page.locator("tbody tr", has_text="first")
    row.locator(".tick").click()
    row.get_by_label("choose first").check()
    assert at(page) in ("", "#/")
    row.locator("td").nth(4).click()
    drawn(page)
    assert at(page) == "#/first/metrics"


def test_only_a_run_of_several_ranks_says_how_many(look):
    page = look()
    assert "4 of 4 ranks" in page.locator("tbody tr", has_text="hostile").inner_text()
    assert "rank" not in page.locator("tbody tr", has_text="first").inner_text()
    assert "ranks" not in page.locator("thead").inner_text()


def test_a_chart_has_one_name(look):
    captions = look("#/first/metrics").locator("figcaption").all_inner_texts()
    named = [caption for caption in captions if "gradient norm" in caption]
    assert named and not any("grad_norm" in caption for caption in named)


def test_the_head_of_a_column_sorts_the_runs(look):
    page = look()
    names = page.locator("td.first a")
    page.get_by_role("button", name="steps").click()
    assert names.all_inner_texts()[:2] == ["first", "broken"]
    assert page.get_by_role("columnheader", name="steps").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="steps").click()
    assert names.all_inner_texts()[0] == "short"
    assert at(page) == "#/?sort=-steps"
    page.get_by_role("button", name="loss").click()
    assert names.all_inner_texts()[-1] == "broken", "NaN comes last"
    assert look("#/?sort=run").locator("td.first a").all_inner_texts()[:2] == ["again", "broken"]


def test_the_findings_are_counted_on_their_tab(look):
    page = look("#/broken/metrics")
    expect(page.locator("nav").get_by_role("link", name="Findings")).to_have_text("Findings 1")
    page.keyboard.press("r")
    drawn(page)
    page.get_by_role("link", name="other", exact=True).click()
    drawn(page)
    expect(page.locator("nav").get_by_role("link", name="Findings")).to_have_text("Findings")


def test_another_tensor_is_found_from_the_page_of_one(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad")
    page.keyboard.press("/")
    page.keyboard.type("stem.bias")
    page.keyboard.press("Enter")
    drawn(page)
    assert at(page) == "#/first/tensor?kind=grad&tensor=stem.bias"
    page.get_by_label("find a tensor").fill("blocks")
    page.get_by_label("find a tensor").press("Enter")
    drawn(page)
    assert at(page) == "#/first/heatmap?kind=grad&find=blocks"


def test_what_is_typed_where_nothing_is_found_is_no_shortcut(look):
    page = look("#/first/about")
    page.keyboard.press("/")
    page.keyboard.type("graph")
    assert at(page) == "#/first/about"


def test_the_latest_rows_of_a_tensor_are_in_sight(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad")
    page.get_by_role("cell", name="59", exact=True).wait_for()
    scrolled = "(table) => table.scrollTop + table.clientHeight >= table.scrollHeight - 1"
    assert page.locator(".panel.wide .table").evaluate(scrolled)


def test_code_keeps_its_indentation(look):
    assert "\n    with backsight.measure_memory(" in look("#/other/memory").locator("pre").inner_text()


def test_two_runs_are_chosen_and_compared(look):
    page = look()
    compare = page.get_by_role("button", name="compare")
    assert compare.is_disabled()
    page.get_by_label("choose first").check()
    page.get_by_label("choose other").check()
    compare.click()
    drawn(page)
    assert at(page).startswith("#/first/compare?with=other")
    assert "Step 0, stem.weight (weights)" in page.locator("main").inner_text()
    page.get_by_label("remove other").click()
    page.get_by_label("again").check()
    page.get_by_role("button", name="compare").click()
    drawn(page)
    assert "every number is the same in both" in page.locator("main").inner_text()


def test_a_heatmap_shows_tensors_over_steps(look):
    page = look("#/first/heatmap")
    labels = page.locator(".labels .row").all_inner_texts()
    assert [text.split("\n")[-1].strip() for text in labels[:3]][:2] == ["stem.weight", "stem.bias"]
    assert shades(page, ".cells canvas") > 50
    assert "10 tensors, a column is a step" in page.locator(".notes").inner_text()


def test_a_link_to_a_heatmap_asks_for_it_before_it_knows_the_run(pages, server):
    asked, held = [], []
    page = pages.open({"request": lambda request: asked.append(request.url)})
    page.route("**/api/ask/about*", lambda route: held.append(route))
    with page.expect_request("**/api/ask/heatmap*"):
        page.goto(f"{server.url}#/first/heatmap?kind=weight&stat=std")
    assert page.get_by_text("opening the run").is_visible()
    held[0].continue_()
    drawn(page)
    assert shades(page, ".cells canvas") > 50
    assert len([address for address in asked if "/api/ask/heatmap?" in address]) == 1


def test_the_kind_and_the_statistic_are_in_the_address(look):
    page = look("#/first/heatmap")
    page.get_by_role("radio", name="weights").click()
    drawn(page)
    page.get_by_label("statistic").select_option("zero_fraction")
    drawn(page)
    assert at(page) == "#/first/heatmap?kind=weight&stat=zero_fraction"
    again = look("#/first/heatmap?kind=weight&stat=zero_fraction")
    assert again.get_by_role("radio", name="weights").get_attribute("aria-checked") == "true"
    assert again.get_by_label("statistic").input_value() == "zero_fraction"
    page.go_back()
    drawn(page)
    assert page.get_by_label("statistic").input_value() == "l2"


def test_modules_are_closed_and_opened(look):
    page = look("#/first/heatmap")
    rows = page.locator(".labels .row")
    before = rows.count()
    block = page.get_by_role("button", name="blocks")
    assert block.get_attribute("aria-expanded") == "true"
    block.click()
    drawn(page)
    assert rows.count() < before
    assert "6 tensors" in page.get_by_role("button", name="blocks").inner_text()
    page.get_by_role("button", name="blocks").click()
    drawn(page)
    assert rows.count() == before


def test_a_tensor_is_found_by_typing(look):
    page = look("#/first/heatmap")
    page.keyboard.press("/")
    page.keyboard.type("head")
    expect(page.locator(".labels .row")).to_have_text(["head.weight", "head.bias"], use_inner_text=True)
    page.keyboard.type("zzz")
    page.get_by_text("No match").wait_for()


def test_each_row_may_have_a_scale_of_its_own(look):
    page = look("#/first/heatmap")
    assert "log scale" in page.locator(".legend").inner_text()
    before = page.locator(".cells canvas").evaluate("(board) => board.toDataURL()")
    page.get_by_label("scale").select_option("row")
    drawn(page)
    assert "scale=row" in at(page)
    assert "each row has its own scale" in page.locator(".legend").inner_text()
    assert page.locator(".cells canvas").evaluate("(board) => board.toDataURL()") != before


def test_the_scale_is_that_of_the_rows_that_are_found(look):
    page = look("#/first/heatmap")
    before = page.locator(".legend").inner_text()
    page.get_by_label("find a tensor").fill("/bias$/")
    expect(page.locator(".labels a.row")).to_have_count(5)
    assert page.locator(".legend").inner_text() != before


def test_rows_grow_to_fill_the_page(look):
    page = look("#/first/heatmap", viewport={"width": 1440, "height": 900})
    tall = page.locator(".labels .row").first.bounding_box()["height"]
    assert tall > 30
    box = page.locator(".cells canvas").bounding_box()
    assert box["height"] == pytest.approx(tall * page.locator(".labels .row").count(), abs=1)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 1.5 * tall)
    assert page.locator(".bubble").inner_text().split("\n")[0] == "stem.bias"


def test_names_that_are_close_are_offered_where_nothing_matches(look):
    page = look("#/first/heatmap")
    page.get_by_label("find a tensor").fill("heda.weight")
    page.get_by_text("No match").wait_for()
    page.get_by_role("button", name="head.weight").click()
    drawn(page)
    assert page.locator(".labels .row").all_inner_texts() == ["head.weight"]


def test_the_pointer_tells_a_cell_and_a_click_opens_its_tensor(look):
    page = look("#/first/heatmap")
    box = page.locator(".cells canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    told = page.locator(".bubble").inner_text().split("\n")
    assert told[0] == "stem.weight"
    assert told[1] in ("step 29", "step 30")
    assert told[2].startswith("norm ")
    page.mouse.down()
    page.mouse.up()
    drawn(page)
    assert at(page).startswith("#/first/tensor?kind=grad&stat=l2&tensor=stem.weight&step=")


def test_dragging_zooms_and_escape_shows_all_steps(look):
    page = look("#/first/heatmap")
    box = page.locator(".cells canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.255, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 9, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.505, box["y"] + 9, steps=4)
    page.mouse.up()
    drawn(page)
    assert "first=15&last=30" in at(page)
    page.locator(".cells canvas").focus()
    page.keyboard.press("Escape")
    drawn(page)
    assert "first=" not in at(page)


def test_the_keyboard_moves_through_cells_and_opens_them(look):
    page = look("#/first/heatmap")
    page.locator(".cells canvas").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    said = page.locator(".said").inner_text()
    assert said.startswith("stem.weight, step 2, norm ")
    page.keyboard.press("Enter")
    drawn(page)
    assert "tensor=stem.weight&step=2" in at(page)


def test_a_tensor_has_values_norms_magnitudes_and_rows(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad&step=20")
    titles = page.locator("figcaption h3").all_inner_texts()
    assert titles[:3] == ["Values", "Norms of the same parameter", "Magnitudes"]
    assert titles[-1] == "Rows"
    assert page.locator(".names").nth(1).inner_text().split() == ["grad", "weight", "exp_avg", "exp_avg_sq"]
    for board in range(3):
        assert shades(page, f"figure:nth-of-type({board + 1}) canvas") > 3
    assert page.locator("tr.here td").first.inner_text() == "20"
    assert "10 × 32, float32" in page.locator(".title").inner_text()


def test_a_chart_tells_a_step_and_a_click_shows_its_rows(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad")
    box = page.locator("figure canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    told = page.locator(".bubble").inner_text().split("\n")
    assert told[0].startswith("step ")
    assert told[1].startswith("mean: ")
    assert told[2].startswith("from ")
    page.mouse.down()
    page.mouse.up()
    drawn(page)
    assert f"step={told[0].removeprefix('step ')}" in at(page)
    assert page.locator("tr.here td").first.inner_text() == told[0].removeprefix("step ")


def test_from_a_gradient_to_its_weight(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad")
    page.get_by_role("radio", name="exp_avg_sq").click()
    drawn(page)
    assert "tensor=head.weight.exp_avg_sq" in at(page)
    page.get_by_label("beside it").select_option("grad head.bias")
    drawn(page)
    assert page.locator("h2").first.inner_text() == "head.bias"


def test_where_nan_began_is_one_click_away(look):
    page = look("#/broken/tensor?tensor=head.weight&kind=grad")
    page.get_by_role("button", name="NaN or ∞ from step 30 on").click()
    drawn(page)
    assert "step=30" in at(page)
    assert page.locator("tr.here td.bad").count() == 1


def test_findings_lead_to_what_they_are_about(look):
    page = look("#/broken/findings")
    first = page.locator(".finding").first
    assert first.locator("h3").inner_text() == "The gradient of head.bias first contained NaN at step 30."
    assert "Fix:" in first.inner_text()
    first.get_by_role("link", name="head.bias (gradients)").click()
    drawn(page)
    assert "tensor=head.bias" in at(page)
    assert "step=30" in at(page)


def test_a_healthy_run_has_no_errors(look):
    page = look("#/first/findings")
    assert page.locator(".finding.error").count() == 0


NUMBERS = """() => { const kept = CanvasRenderingContext2D.prototype.fillText, found = [];
    let now = null;
    CanvasRenderingContext2D.prototype.fillText = function (text) { now[this.textAlign].add(text); };
    for (const board of document.querySelectorAll("canvas")) {
        now = { right: new Set(), center: new Set(), left: new Set(), start: new Set() };
        board.again();
        found.push([board.getAttribute("aria-label"), [...now.right], [...now.center]]);
    }
    CanvasRenderingContext2D.prototype.fillText = kept;
    return found; }"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_an_axis_has_two_numbers_at_least(look, size):
    """One alone says nothing of the scale."""
    views = ("metrics", "metrics?log=1", "heatmap", "graph", "metrics?axis=time", "metrics?first=3&last=5")
    options = {"viewport": {"width": size[0], "height": size[1]}}
    for page in look.each(*(f"#/first/{view}" for view in views), **options):
        charts = [each for each in page.evaluate(NUMBERS) if " over the " in each[0] and "heatmap of" not in each[0]]
        assert charts
        assert [each for each in charts if min(map(len, each[1:])) < 2] == [], at(page)


def test_outliers_are_left_out_of_the_scale_if_that_is_wanted(look):
    """A step of the run is measured, and takes a hundred times as long as others."""
    page = look("#/first/metrics?find=step_time&log=0")
    _, before, _ = page.evaluate(NUMBERS)[0]
    page.get_by_role("button", name="ignore outliers").click()
    _, after, _ = page.evaluate(NUMBERS)[0]
    assert before != after
    assert "calm=1" in at(page)
    page.get_by_role("button", name="ignore outliers").click()
    assert page.evaluate(NUMBERS)[0][1] == before


def test_the_values_of_many_tensors_stand_on_one_page(look):
    page = look("#/first/heatmap?kind=weight")
    page.get_by_label("statistic").select_option("distribution of values")
    page.locator(".spreads canvas").first.wait_for()
    drawn(page)
    assert page.locator(".spreads figure").count() == 10
    assert shades(page, ".spreads canvas") > 20
    page.get_by_label("find a tensor").fill("blocks bias")
    drawn(page)
    assert page.locator(".spreads figure").count() == 3
    assert "stat=spread" in at(page)
    page.get_by_role("radio", name="gradients").click()
    drawn(page)
    page.locator(".spreads a", has_text="blocks.1.0.bias").click()
    drawn(page)
    assert at(page).startswith("#/first/tensor?tensor=blocks.1.0.bias&kind=grad")


def test_a_line_of_the_program_is_shown_with_its_text_and_opened_in_any_editor(tmp_path, look):
    script = tmp_path / "train.py"
    script.write_text("import torch\n\n\ndef forward(layer, x):\n    return torch.sqrt(layer(x) - 100)\n")
    scope = {"__name__": "train"}
    exec(compile(script.read_text(), str(script), "exec"), scope)
    model = nn.Linear(4, 1)
    with bs.watch(level="lines"), bs.record(model, run=tmp_path / "run") as rec:
        for _ in range(3):
            scope["forward"](model, torch.ones(2, 4)).sum().backward()
            rec.step()
    with Server(Library(tmp_path)) as server:
        page = look("#/run/findings", server=server)
        assert page.locator("code.text", has_text="return torch.sqrt(layer(x) - 100)").count()
        page.get_by_role("button", name="train.py:5").first.click()
        said = page.get_by_label("a line of the program")
        assert said.get_by_text(f"{script}:5").count()
        assert said.get_by_role("link").first.get_attribute("href") == f"vscode://file{script}:5"
        page.keyboard.press("Escape")
        expect(said).to_be_hidden()


def test_light_or_dark_is_chosen_kept_and_left_to_the_system_again(look):
    page = look("#/first/heatmap", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light, lowest = page.evaluate(ground), page.locator(".ramp").evaluate("bar => bar.style.background")
    page.keyboard.press("l")
    drawn(page)
    dark = page.evaluate(ground)
    assert dark != light
    assert page.locator(".ramp").evaluate("bar => bar.style.background") != lowest
    page.reload()
    drawn(page)
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="light or dark").click()
    drawn(page)
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == dark


def test_views_have_keys(look):
    page = look("#/first/heatmap")
    for key, view in (("f", "findings"), ("a", "about"), ("c", "compare"), ("h", "heatmap")):
        page.keyboard.press(key)
        drawn(page)
        assert f"#/first/{view}" in at(page)
        assert page.locator("nav a[aria-current=page]").inner_text().lower() == view
    page.keyboard.press("r")
    page.locator("td.first").first.wait_for()


def test_what_a_run_is_made_with_is_told(look):
    text = look("#/first/about").locator("main").inner_text()
    assert "steps\neach\nkinds\ninputs, outputs, weights, gradients, optimizer state" in text
    assert "60 recorded, 0 to 59" in text
    assert "torch" in text


def test_a_run_of_one_step_is_drawn(look):
    page = look("#/short/heatmap")
    assert "a column is a step" in page.locator(".notes").inner_text()
    page = look("#/short/tensor?tensor=head.weight&kind=grad")
    assert page.locator("figure").count() >= 3


@pytest.mark.parametrize("view", ["", "heatmap", "findings", "compare?with=first", "about"])
def test_names_that_are_markup_are_text(look, view):
    page = look(f"#/hostile/{view}" if view else "")
    assert page.locator("img").count() == 0
    if view in ("heatmap", "about"):
        assert "<img" in page.locator("main").inner_text()


def test_a_name_that_turns_writing_around_is_spelt_out(look):
    for page in look.each("#/hostile/heatmap", "#/hostile/findings", "#/hostile/about"):
        shown = page.locator("main").inner_text()
        assert "\u202e" not in shown
        assert "\\u202e" in shown


def test_a_tensor_that_is_markup_is_text_and_all_nan(look):
    page = look("#/hostile/heatmap")
    assert shades(page, ".cells canvas") <= 4  # the colour of NaN, and of what is between rows
    page.locator(".labels a.row").first.click()
    drawn(page)
    assert page.locator("h2").first.inner_text().startswith("<img src=x")
    assert page.locator("img").count() == 0
    assert "NaN or ∞ from step 0 on" in page.locator(".title").inner_text()
    assert HOSTILE[:20] in page.title()


def test_the_step_of_a_tensor_is_moved_by_keys(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad&step=20")
    page.keyboard.press("ArrowRight")
    expect(page.locator("tr.here td").first).to_have_text("21")
    drawn(page)
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator("tr.here td").first).to_have_text("11")


def test_a_rank_may_be_chosen(look):
    page = look("#/hostile/heatmap")
    page.get_by_label("rank").select_option("2")
    drawn(page)
    assert "rank=2" in at(page)


@pytest.mark.parametrize("view", ["#/nothing/heatmap", "#/first/tensor?tensor=nothing&kind=grad", "#/first/tensor"])
def test_what_is_not_there_is_said_and_leads_on(look, view):
    page = look(view)
    assert page.locator(".empty").is_visible()
    assert len(page.locator(".empty").inner_text()) > 15
    look.refused()


def test_a_viewer_that_has_ended_is_told_of(look, library):
    with Server(library) as server:
        page = look(server=server)
    page.evaluate("location.hash = '#/first/findings'")
    page.get_by_text("The viewer no longer answers").wait_for()
    look.refused()


def test_of_what_was_recorded_in_part_the_top_says_of_how_many_steps(look, tmp_path):
    from backsight.viewer import Library, Server

    with RunWriter(tmp_path / "some") as writer:
        number = writer.tensor("w", "grad", None, (1,))
        for step in (0, 3, 6):
            writer.append(step, [number], np.ones(1, STATISTICS))
    with Server(Library(tmp_path)) as server:
        page = look("#/some/heatmap", server=server)
        assert page.locator(".top .steps").inner_text() == "3 of 7 steps"


def test_a_run_is_followed_while_it_is_recorded(browser, tmp_path):
    import numpy as np

    from backsight.runs import STATISTICS, RunWriter
    from backsight.viewer import Library, Server

    writer = RunWriter(tmp_path / "live")
    number = writer.tensor("w", "grad", None, (1,))
    rows = np.zeros(1, STATISTICS)
    rows["count"] = rows["mean"] = 1
    writer.append(0, [number], rows)
    writer.flush()
    with Server(Library(tmp_path)) as server:
        page = browser.new_page()
        page.clock.install()
        page.goto(server.url)
        page.goto(f"http://127.0.0.1:{server.port}/#/live/heatmap")
        drawn(page)
        assert page.locator(".top .steps").inner_text() == "1 step"
        assert page.locator(".top .state").inner_text() == "recording"
        for step in range(1, 8):
            writer.append(step, [number], rows)
        writer.flush()
        later(page, page.get_by_text("8 steps"))
        writer.close()
        later(page, page.get_by_text("finished"))
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(look, scheme):
    """Contrast of WCAG AA for everything that is written, in both schemes."""
    measure = """() => { const lin = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      const lum = (rgb) => 0.2126 * lin(rgb[0]) + 0.7152 * lin(rgb[1]) + 0.0722 * lin(rgb[2]);
      const parts = (text) => text.match(/[\\d.]+/g).map(Number);
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = parts(getComputedStyle(e).backgroundColor);
        if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
      const bad = [];
      for (const e of document.querySelectorAll("body *")) {
        if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
        if (e.disabled || e.closest("script, style, noscript, [hidden]")) continue;
        const [a, b] = [lum(parts(getComputedStyle(e).color)), lum(behind(e))].sort((p, q) => q - p);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) bad.push(`${e.className} ${e.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
      }
      return bad; }"""
    views = ("", "#/first/heatmap", "#/broken/findings", "#/first/tensor?tensor=head.weight&kind=grad", "#/first/about")
    for page in look.each(*views, color_scheme=scheme):
        assert page.evaluate(measure) == [], page.url


def test_everything_can_be_reached_by_tab(look):
    page = look("#/first/heatmap")
    reached = set()
    focused = """() => { const e = document.activeElement, label = e.getAttribute("aria-label") || e.textContent;
        return `${e.tagName} ${label.slice(0, 24)}`; }"""
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(focused))
    for wanted in (
        "A backsight",
        "A Findings",
        "BUTTON gradients",
        "SELECT statistic",
        "INPUT find a tensor",
        "A stem.weight",
    ):
        assert wanted in reached
    assert any(each.startswith("CANVAS heatmap of the norm") for each in reached)


def test_nothing_is_wider_than_a_narrow_screen(look):
    views = (
        "",
        "#/first/heatmap",
        "#/first/tensor?tensor=head.weight&kind=grad",
        "#/broken/findings",
        "#/first/about",
        "#/hostile/heatmap",
        "#/hostile/findings",
        "#/hostile/memory",
        "#/hostile/graph",
        "#/hostile/compare?with=first",
        "#/hostile/heatmap?stat=spread",
        "#/first/graph",
    )
    for page in look.each(*views, viewport={"width": 390, "height": 844}):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, page.url


def test_many_questions_at_once_do_not_stop_the_server(server):
    import contextlib
    import http.client

    answered = []

    def ask():
        query = "run=first&stat=l2&kind=grad&columns=60"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
            connection.request("GET", f"/api/ask/heatmap?{query}", headers={"x-backsight-token": server.token})
            answered.append(connection.getresponse().status)

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answered == [200] * 24


def test_a_link_that_asks_for_what_is_not_there_is_told_so(look):
    page = look("#/first/heatmap?kind=foo&bar=1&first=x&rank=7")
    said = page.locator(".notice").inner_text()
    assert "This link has “bar”, which this page does not know." in said
    assert "This link has first “x”, which is not a whole number." in said
    assert "This link asks for the kind “foo”, which this run does not have: it has grad" in said
    assert "This link asks for rank “7”" in said
    assert page.locator(".cells canvas").count() == 1
    page.locator(".notice").get_by_role("button", name="close").click()
    assert page.locator(".notice").count() == 0
    assert look("#/first/heatmap?kind=grad&stat=l2").locator(".notice").count() == 0


def test_help_is_one_key_away(look):
    page = look("#/first/heatmap")
    page.keyboard.press("?")
    told = page.get_by_role("dialog", name="help")
    assert "find: several words" in told.inner_text()
    page.keyboard.press("Escape")
    assert not told.is_visible()
    page.get_by_role("button", name="help").click()
    assert told.is_visible()


def test_a_run_that_is_recorded_anew_in_its_folder_is_noticed(browser, tmp_path):
    import shutil

    from recorded_runs import digits

    from backsight.viewer import Library, Server

    digits(tmp_path / "run", 5)
    with Server(Library(tmp_path)) as server:
        page = browser.new_page()
        page.clock.install()
        page.goto(server.url)
        page.goto(f"http://127.0.0.1:{server.port}/#/run/metrics")
        page.get_by_text("5 steps").wait_for()
        shutil.rmtree(tmp_path / "run")
        digits(tmp_path / "run", 8, seed=1)
        later(page, page.get_by_text("This run was recorded again"))
        page.get_by_text("8 steps").wait_for()
        page.close()


def test_magnitudes_are_shown_as_ridges_with_the_newest_in_front(look):
    page = look("#/first/tensor?tensor=head.weight&kind=grad")
    assert "share of the elements" in page.locator(".panel .legend").inner_text()
    page.get_by_role("radio", name="ridges").click()
    drawn(page)
    assert "ridges=1" in at(page)
    board = page.get_by_label("ridges of head.weight, negative values on the left")
    assert board.count() == 1
    legend = page.locator(".panel .legend").inner_text()
    assert legend.startswith("step")
    assert "59" in legend
    box = board.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 100)
    expect(page.locator(".bubble")).to_contain_text("from −")
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 100)
    expect(page.locator(".bubble")).not_to_contain_text("−")


def test_ridges_of_a_run_without_signs_say_so(tmp_path, look):
    import numpy as np

    from backsight.runs import STATISTICS, RunWriter
    from backsight.viewer import Library, Server

    counts = np.zeros((1, 64), "<u4")
    counts[0, 40:44] = 2
    rows = np.zeros(1, STATISTICS)
    rows["count"] = 8
    with RunWriter(tmp_path / "run") as writer:
        tensor = writer.tensor("w", "grad")
        for step in range(5):
            writer.append(step, [tensor], rows, histograms=counts)
    with Server(Library(tmp_path)) as server:
        page = look("#/run/tensor?tensor=w&kind=grad&ridges=1", busy=False, server=server)
        page.get_by_text("by magnitude: this run was recorded without signs").wait_for()
        assert page.get_by_label("ridges of the magnitudes of w").count() == 1


def test_a_tensor_that_is_not_there_leads_to_those_that_are_called_alike(look):
    page = look("#/first/tensor?tensor=head.wieght&kind=grad")
    assert page.get_by_text("This run has no tensor “head.wieght” of the kind “grad”.").count() == 1
    page.get_by_role("link", name="head.weight").click()
    drawn(page)
    assert "tensor=head.weight&kind=grad" in at(page)
    assert page.locator("figcaption h3").first.inner_text() == "Values"


def test_events_are_sentences(look):
    page = look("#/first/about")
    text = page.locator("article", has=page.get_by_role("heading", name="Other events")).inner_text()
    assert "optimizer AdamW: " in text
    assert "lr 0.003" in text
    assert "{" not in text


def test_what_is_selected_is_compared_by_a_key(look):
    page = look()
    page.get_by_label("choose first").check()
    page.keyboard.press("c")
    assert at(page) in ("", "#/")
    page.get_by_label("choose other").check()
    page.keyboard.press("c")
    drawn(page)
    assert at(page).startswith("#/first/compare?with=other")
    page.keyboard.press("?")
    assert "compare the selected ones" in page.locator("dialog").inner_text()


def test_two_runs_part_within_the_steps_of_the_shorter_one(tmp_path, look):
    for name, steps in (("long", 3000), ("short", 700)):
        with RunWriter(tmp_path / name) as writer:
            for step in range(steps):
                writer.mark(step, loss=3 + 10 * math.exp(-step / 400) + 0.01 * (step % 2))
    with Server(Library(tmp_path)) as server:
        page = look("#/long/compare?with=short", server=server)
        assert "the last of both" in page.locator(".verdict").inner_text()


def test_how_runs_differ_agrees_with_the_losses_in_the_table(tmp_path, look):
    for name, loss in (("one", 1.0), ("same", 1.0), ("close", 1.04), ("nearer", 1.2)):
        with RunWriter(tmp_path / name) as writer:
            for step in range(200):
                # The last few steps of one run come near to the others, the mean of its last tenth does not.
                writer.mark(step, loss=(1.0 if name == "nearer" and step >= 188 else loss) + 0.001 * (step % 2))
    with Server(Library(tmp_path)) as server:
        page = look("#/one/compare?with=same,close,nearer", server=server)
        rows = page.locator(".verdict tbody tr")
        assert page.locator(".verdict h2").inner_text() == "Lowest loss at the end: one"
        told = {row.locator("td").first.inner_text(): row.inner_text() for row in rows.all()}
        assert "the same" in told["same"]
        assert "within 5\u00a0% at the end" in told["close"]
        assert "% apart at the end" in told["nearer"]
        page.goto(f"http://127.0.0.1:{server.port}/#/one/compare?with=same")
        drawn(page)
        assert page.locator(".verdict h2").inner_text() == "loss ends the same"


def test_numbers_beyond_single_precision_are_not_called_infinite(tmp_path, look):
    with RunWriter(tmp_path / "run") as writer:
        for step in range(20):
            writer.mark(step, huge=1e38 * (step + 1), swinging=1.7e308 * (-1) ** step, tiny=1e-50 * (step + 1))
    with Server(Library(tmp_path)) as server:
        page = look("#/run/metrics", server=server)
        said = page.locator("main").inner_text()
        assert "∞" not in said
        assert "2e39" in said
        assert "2e−49" in said


def test_a_tensor_leads_back_to_all_of_its_kind(look):
    page = look("#/broken/tensor?tensor=head.weight&kind=weight&step=35")
    assert page.locator("nav [aria-current]").evaluate_all("all => all.map(a => [a.innerText, a.ariaCurrent])") == [
        ["Heatmap", "location"]
    ]
    head = page.locator("th").all_inner_texts()
    assert head[:2] == ["step", "NaN"], "what is wrong comes first: a narrow page does not show the last columns"
    page.get_by_role("link", name="all weights").click()
    drawn(page)
    assert at(page) == "#/broken/heatmap?kind=weight"
    assert page.locator("nav [aria-current=page]").inner_text() == "Heatmap"


def test_a_long_name_leaves_room_for_its_value(look):
    page = look("#/hostile/about")
    widths = page.locator("dd").evaluate_all("all => all.map(each => each.clientWidth)")
    assert min(widths) > 200


def test_a_tensor_without_elements_has_no_numbers(tmp_path, look):
    rows = np.zeros(1, STATISTICS)
    with RunWriter(tmp_path / "run") as writer:
        tensor = writer.tensor("none", "grad", "", (0,), "float32")
        for step in range(100):
            writer.append(step, [tensor] if step < 3 else [], rows[: step < 3])
    with Server(Library(tmp_path)) as server:
        page = look("#/run/tensor?tensor=none&kind=grad", server=server)
        table = page.locator(".slot table").inner_text()
        assert table.count("–") >= 3


def test_a_tap_above_a_pill_is_one_on_its_box(look):
    page = look("#/first/graph")
    pill = page.locator(".bs [data-box] .knob[data-node]").first
    # A browser leads a tap beside something small to it: the click is on the pill, what was touched lies above.
    pill.evaluate(
        """(pill) => {
            const { x, y } = pill.getBoundingClientRect();
            pill.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true, clientX: x, clientY: y - 6 }));
            pill.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        }"""
    )
    drawn(page)
    assert at(page).startswith("#/first/graph")

"""Curves, of one run and of several: what is shown, zoomed into, smoothed, switched off and saved."""

from __future__ import annotations

import csv
import io
import math
import re

import numpy as np
import pytest
from looking import at, drawn, expect, shades
from recorded_runs import digits

import backsight as bs
from backsight.runs import STATISTICS, RunWriter
from backsight.viewer import Library, Server

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def titles(page):
    return page.locator(".panel h3").all_inner_texts()


def chart(page, name):
    return page.locator("figure.panel", has=page.locator("h3", has_text=name)).first


def saved(page, name, way):
    menu = chart(page, name).locator(".export")
    menu.locator("summary").click()
    with page.expect_download() as waiting:
        menu.get_by_role("button", name=way).click()
    return waiting.value


def drag(page, board, start, end):
    board.scroll_into_view_if_needed()
    box = board.bounding_box()
    inner, y = box["width"] - 64 - 14, box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 64 + start * inner, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 64 + (start + end) / 2 * inner, y, steps=3)
    page.mouse.move(box["x"] + 64 + end * inner, y, steps=3)
    page.mouse.up()


def test_every_number_of_a_run_has_a_chart(look):
    page = look("#/first/metrics")
    assert titles(page)[:3] == ["loss", "gradient norm", "update / weight"]
    assert {"step time", "resident memory"} <= set(titles(page))
    assert all(shades(page, f"figure:nth-of-type({k + 1}) canvas") > 3 for k in range(3))
    said = page.locator(".under").inner_text()
    assert "lr\n0.003" in said
    assert "train from step 5" in said


def test_the_pointer_is_in_all_charts_at_one_step(look):
    page = look("#/first/metrics")
    board = chart(page, "loss").locator("canvas")
    box = board.bounding_box()
    before = chart(page, "gradient norm").locator("canvas").evaluate("(board) => board.toDataURL()")
    page.mouse.move(box["x"] + 64 + (box["width"] - 78) / 2, box["y"] + 40)
    expect(page.locator(".bubble")).to_contain_text(re.compile("step (29|30)"))
    drawn(page)
    assert chart(page, "gradient norm").locator("canvas").evaluate("(board) => board.toDataURL()") != before


def test_dragging_zooms_into_all_charts_and_the_link_holds_it(look):
    page = look("#/first/metrics")
    drag(page, chart(page, "loss").locator("canvas"), 0.25, 0.5)
    drawn(page)
    assert "first=15&last=30" in at(page) or "first=15&last=29" in at(page)
    rows = list(csv.reader(io.StringIO(saved(page, "loss", "CSV").path().read_text())))
    assert rows[0] == ["step", "loss"]
    assert (int(rows[1][0]), int(rows[-1][0])) in ((15, 30), (15, 29))
    page.get_by_role("button", name="reset zoom").click()
    drawn(page)
    assert "first=" not in at(page)


def test_numbers_are_saved_as_they_were_recorded(look, runs):
    page = look("#/first/metrics")
    download = saved(page, "loss", "CSV")
    assert download.suggested_filename == "loss.csv"
    _, *rows = csv.reader(io.StringIO(download.path().read_text()))
    known = bs.open_run(runs / "first").scalars()["loss"]
    assert [int(step) for step, _ in rows] == known.steps.tolist()
    assert [float(value) for _, value in rows] == pytest.approx(known.values.tolist(), rel=1e-6)


def test_pictures_are_saved(look):
    import xml.etree.ElementTree as ET

    page = look("#/first/metrics")
    assert saved(page, "loss", "PNG").path().read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    tree = ET.fromstring(saved(page, "gradient norm", "SVG").path().read_text())
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "gradient norm" in texts
    assert "nan" not in " ".join(each.get("d", "") for each in tree.iter()).lower()


def test_smoothing_keeps_the_line_as_it_is_behind_the_smooth_one(look):
    page = look("#/first/metrics")
    page.get_by_label("smoothing").fill("90")
    expect(page).to_have_url(re.compile("smooth=90"))
    board = chart(page, "loss").locator("canvas")
    box = board.bounding_box()
    page.mouse.move(box["x"] + 64 + (box["width"] - 78) / 2, box["y"] + 40)
    expect(page.locator(".bubble")).to_contain_text("(")
    page.get_by_label("smoothing").fill("0")
    assert "smooth" not in at(page)


def test_wall_time_and_epochs_are_axes_too(look, runs):
    page = look("#/first/metrics")
    assert page.get_by_label("over", exact=True).locator("option").all_inner_texts() == ["step", "wall time"]
    page.get_by_label("over", exact=True).select_option("time")
    drawn(page)
    rows = list(csv.reader(io.StringIO(saved(page, "loss", "CSV").path().read_text())))
    assert rows[0][0] == "time"
    times = bs.open_run(runs / "first").times()[1]
    assert float(rows[-1][0]) == pytest.approx(times[-1] - times[0], abs=1e-3)


@pytest.mark.parametrize("low", [0.003, -4e8, 1e300])
def test_numbers_that_differ_by_rounding_alone_have_one_tick(low, visit):
    """As a smoothed constant has; steps of a size that the number cannot show would be counted for ever."""
    from backsight.viewer.page import script

    code = script()[script().index("const isFlat") : script().index("const RAMP")]
    page = visit(f"<!doctype html><title>ticks</title><script>{code}</script>")
    for ulps in (1, 2, 100):
        high = low + ulps * math.ulp(low)
        assert page.evaluate(f"ticks({low!r}, {high!r}, 4)") == [low]
    assert len(page.evaluate(f"ticks({low!r}, {low + 1e-9 * abs(low)!r}, 4)")) > 2


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 7, ["0.1", "0.3", "1", "3"]),
        (2, 9, ["2", "3", "4", "5", "6", "7", "8", "9"]),
        (1e-7, 1, ["0.0001", "0.01", "1", "1e-06"]),
        (0.55, 2.2, ["1", "2"]),
        (3.1, 3.4, ["3.1", "3.2", "3.3", "3.4"]),
    ],
)
def test_logarithmic_axes_have_ticks_at_round_numbers_of_all_decades(low, high, expected, visit):
    from backsight.viewer.page import script

    start = script().index("const isFlat")
    code = script()[start : script().index("const RAMP")]
    most = 8 if high == 9 else 4.5
    page = visit(f"<!doctype html><title>ticks</title><script>{code}</script>")
    found = page.evaluate(f"logTicks({low}, {high}, {most})")
    assert sorted(f"{round(value, 10):g}" for value in found) == sorted(expected)


def test_a_metric_is_found_and_what_is_alike_is_offered(look):
    page = look("#/first/metrics")
    page.keyboard.press("/")
    page.keyboard.type("grad*")
    expect(page.locator(".panel h3")).to_have_text(["gradient norm"])
    page.get_by_label("find a metric").fill("/^lo+s$/")
    expect(page.locator(".panel h3")).to_have_count(0)
    page.get_by_label("find a metric").fill("losss")
    page.get_by_text("No match").wait_for()
    page.get_by_role("button", name="loss", exact=True).click()
    drawn(page)
    expect(page.locator(".panel h3")).to_have_text(["loss"])
    page.get_by_label("find a metric").fill("/(/")
    page.get_by_text("/(/ is not a valid expression.").wait_for()


def test_any_number_of_runs_is_ticked_and_overlaid(look):
    page = look()
    for name in ("first", "other", "again"):
        page.get_by_label(f"choose {name}").check()
    page.get_by_role("button", name="compare 3").click()
    drawn(page)
    assert at(page) == "#/first/compare?with=other%2Cagain"
    rows = list(csv.reader(io.StringIO(saved(page, "loss", "CSV").path().read_text())))
    assert rows[0] == ["step", "first", "other", "again"]
    assert rows[1][1] == rows[1][3] != rows[1][2]
    assert rows[-1][2] == rows[-1][3] == "", "two of them are shorter"


def test_a_run_keeps_its_color_whichever_others_are_shown(look):
    colors = []
    for page in look.each("#/first/compare?with=other,again", "#/other/compare?with=broken,first"):
        every = page.locator(".verdict tbody i")
        assert len({every.nth(k).get_attribute("style") for k in range(3)}) == 3
        table = page.locator(".verdict tbody tr", has_text="other")
        colors.append(table.locator("i").get_attribute("style"))
    assert colors[0] == colors[1]


def test_the_runs_stand_in_one_order(look):
    page = look("#/first/compare?with=other,again")
    in_table = [text.split("\t")[0].strip() for text in page.locator(".verdict tbody tr").all_inner_texts()]
    assert [text.strip() for text in page.locator(".chip button:first-child").all_inner_texts()] == in_table


def test_one_menu_is_open_and_none_after_a_click_elsewhere(look):
    page = look("#/first/metrics")
    menus = page.locator(".export summary")
    menus.nth(0).click()
    menus.nth(1).click()
    assert page.locator(".export[open]").count() == 1
    page.locator("h3").first.click()
    assert page.locator(".export[open]").count() == 0


def test_a_pressed_toggle_is_read_under_the_pointer(look):
    page = look("#/first/metrics")
    toggle = page.get_by_role("button", name="ignore outliers")
    plain = toggle.evaluate("(button) => getComputedStyle(button).backgroundColor")
    toggle.click()
    page.mouse.move(0, 0)
    pressed = toggle.evaluate("(button) => getComputedStyle(button).backgroundColor")
    toggle.hover()
    assert toggle.evaluate("(button) => getComputedStyle(button).backgroundColor") == pressed != plain


def test_a_run_is_switched_off_by_its_legend(look):
    page = look("#/first/compare?with=other,again")
    chip = page.get_by_role("group", name="runs").get_by_role("button", name="other", exact=True)
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    expect(page.get_by_role("button", name="other", exact=True)).to_have_attribute("aria-pressed", "false")
    rows = list(csv.reader(io.StringIO(saved(page, "loss", "CSV").path().read_text())))
    assert rows[0] == ["step", "first", "again"]
    assert "off=other" in at(page)
    page.get_by_label("remove again").click()
    drawn(page)
    assert at(page).startswith("#/first/compare?with=other")


def test_a_tensor_of_each_run_is_overlaid(look):
    page = look("#/first/compare?with=other,again")
    page.get_by_label("kind").select_option("weight")
    drawn(page)
    page.get_by_label("tensor", exact=True).fill("head.bias")
    page.get_by_label("tensor", exact=True).press("Enter")
    drawn(page)
    assert "tensor=head.bias" in at(page)
    rows = list(csv.reader(io.StringIO(saved(page, "head.bias: norm of weights", "CSV").path().read_text())))
    assert rows[0] == ["step", "first", "other", "again"]
    assert len(rows) == 61
    assert not math.isclose(float(rows[40][1]), float(rows[40][2]))
    page.get_by_label("tensor", exact=True).fill("haed.bias")
    page.get_by_label("tensor", exact=True).press("Enter")
    drawn(page)
    page.get_by_role("button", name="head.bias", exact=True).click()
    drawn(page)
    assert "tensor=head.bias" in at(page)


def test_settings_are_laid_side_by_side_where_they_differ(look):
    page = look("#/first/compare?with=other")
    table = page.locator("table.settings")
    assert table.locator("tr", has_text="seed").inner_text().split("\t")[1:] == ["seed", "0", "1"]
    assert table.get_by_text("weight_decay").count() == 0
    page.get_by_role("button", name="all ").click()
    assert table.get_by_text("weight_decay", exact=True).count() == 1


def test_where_two_part_is_shown_as_curves_before_digits(look):
    page = look("#/first/compare?with=other")
    assert "Step 0, stem.weight (weights)" in page.locator("main").inner_text()
    assert shades(page, ".curves canvas") > 3
    assert not page.locator(".two table").first.is_visible()
    page.get_by_text("Its numbers").first.click()
    assert page.locator(".two table").first.is_visible()


def test_a_report_holds_its_numbers(runs, visit):
    page = visit(bs.view(runs / "first").html())
    page.get_by_role("link", name="Metrics").click()
    drawn(page)
    assert titles(page)[0] == "loss"
    board = chart(page, "loss").locator("canvas")
    drag(page, board, 0.2, 0.6)
    drawn(page)
    assert "first=" in at(page)
    assert titles(page)[0] == "loss", "what was zoomed into is drawn of what the report holds"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_pages_of_curves_fit_their_screen(look, scheme, size):
    window = {"width": size[0], "height": size[1]}
    views = ("#/first/metrics", "#/first/compare?with=other,again,broken")
    for page in look.each(*views, viewport=window, color_scheme=scheme):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_which_run_has_the_lowest_loss_is_said_first_and_from_where_the_others_are_apart(look):
    page = look("#/first/compare?with=other,broken")
    verdict = page.locator(".verdict")
    assert verdict.locator("h2").inner_text().startswith("Lowest loss at the end: ")
    rows = verdict.locator("tbody tr").all_inner_texts()
    assert len(rows) == 3
    assert "NaN" in rows[-1]
    assert "not finite from step 30 on" in rows[-1]


def test_how_a_loss_ended_is_shown_over_what_was_chosen_for_the_runs(tmp_path, look):
    for lr, end in ((1e-4, 0.5), (1e-3, 0.1), (1e-2, 0.2)):
        with RunWriter(tmp_path / f"lr-{lr}", environment={"arguments": ["--lr", str(lr)]}) as writer:
            number = writer.tensor("w", "grad", "", (2,), "float32")
            for step in range(40):
                writer.append(step, [number], np.ones(1, STATISTICS))
                writer.mark(step, loss=1 - (1 - end) * step / 39)
    with Server(Library(tmp_path)) as server:
        page = look("#/lr-0.001/compare?with=lr-0.01,lr-0.0001", server=server)
        board = page.get_by_label("loss at the end over lr, a point for each run")
        place = board.bounding_box()
        page.mouse.move(place["x"] + place["width"] / 2 + 20, place["y"] + place["height"] / 2)
        said = page.locator(".bubble").inner_text().split("\n")
        assert said[0] == "lr 0.001"
        assert said[1].startswith("lr-0.001: 0.1")


def test_what_was_typed_is_shown_as_typed(tmp_path, look):
    for lr in ("1e-4", "3e-3"):
        with RunWriter(tmp_path / lr, environment={"arguments": ["--lr", lr]}) as writer:
            groups = [{"tensors": 1, "lr": float(lr), "initial_lr": float(lr)}]
            writer.event("optimizer", step=0, optimizer="SGD", groups=groups)
    with Server(Library(tmp_path)) as server:
        page = look("#/1e-4/compare?with=3e-3", server=server)
        rows = page.locator("table.settings tbody tr").all_inner_texts()
        assert [row.split("\t")[1:] for row in rows] == [
            ["arguments lr", "1e-4", "3e-3"],
            ["optimizer lr", "0.0001", "0.003"],
        ]


def test_runs_are_told_apart_by_what_was_chosen_and_not_by_what_follows_from_it(tmp_path, look):
    chosen = [("SGD", 0.1, {}), ("AdamW", 0.1, {"betas": [0.9, 0.999]}), ("AdamW", 0.2, {"betas": [0.9, 0.999]})]
    for k, (optimizer, lr, more) in enumerate(chosen):
        with RunWriter(tmp_path / f"run-{k}") as writer:
            writer.event("optimizer", step=0, optimizer=optimizer, groups=[{"tensors": 2 + k, "lr": lr, **more}])
    with Server(Library(tmp_path)) as server:
        page = look(server=server)
        told = page.locator("td.first .chosen").all_inner_texts()
        assert [each.replace("\u00a0", " ") for each in told] == [
            "optimizer: AdamW, lr 0.2",
            "optimizer: AdamW, lr 0.1",
            "optimizer: SGD, lr 0.1",
        ]


@pytest.mark.parametrize(
    ("words", "told"), [(["0.1", "1e-2"], ["lr 0.01", "lr 0.1"]), (["1", "2"], ["argument 1 = 2", "argument 1 = 1"])]
)
def test_an_argument_without_a_name_is_called_as_what_it_sets_or_is_no_part_of_a_number(tmp_path, browser, words, told):
    for k, (word, lr) in enumerate(zip(words, (0.1, 0.01), strict=True)):
        with RunWriter(tmp_path / f"run-{k}", environment={"arguments": [word]}) as writer:
            writer.event("optimizer", step=0, optimizer="SGD", groups=[{"lr": lr}])
    with Server(Library(tmp_path)) as server:
        page = browser.new_page()
        page.goto(server.url)
        drawn(page)
        found = page.locator("td.first .chosen").all_inner_texts()
        assert [each.replace("\u00a0", " ") for each in found] == told
        page.close()


def test_a_finding_leads_to_the_page_of_its_code(look):
    page = look("#/broken/findings")
    page.get_by_role("button", name="BS301").first.click()
    told = page.get_by_role("dialog", name="BS301")
    told.get_by_text("NaN").first.wait_for()
    assert "BS301" in told.inner_text()
    page.keyboard.press("Escape")
    assert told.count() == 0


def test_the_page_of_a_code_is_laid_out_and_leads_to_other_codes(look):
    page = look("#/broken/findings")
    page.get_by_role("button", name="BS301").first.click()
    told = page.get_by_role("dialog", name="BS301")
    expect(told.get_by_role("heading", name="BS301: NaN or infinity appeared during training")).to_be_visible()
    assert told.get_by_role("heading").all_inner_texts()[1:] == ["Wrong", "Right", "Worth knowing"]
    assert "    for _ in range(20):\n" in told.locator("pre").first.inner_text()
    assert 'taps=(..., "output_grad")' in told.locator("p code").last.inner_text()
    assert not re.search("```|^#", told.inner_text(), re.MULTILINE)


def test_what_a_page_of_a_code_holds_is_no_markup(look):
    text = """# A `title` with <img src=x onerror=alert(1)>

Of *two* lines,
**in `one`** paragraph: `model["base"](x)`, [BS309](BS309.md), [a page](https://pytorch.org), [a trap](javascript:a).

- one
  goes on
- two

1. <script>alert(1)</script>

| code | what |
|---|---|
| `a` | b |

```html
<b># no heading</b>
```"""
    page = look("#/broken/findings")
    page.route("**/api/ask/explain*", lambda route: route.fulfill(json={"text": text}))
    page.get_by_role("button", name="BS301").first.click()
    told = page.get_by_role("dialog", name="BS301")
    expect(told.get_by_role("heading")).to_have_text("A title with <img src=x onerror=alert(1)>")
    assert told.locator("img, script").count() == 0
    assert told.locator("p").inner_text() == (
        'Of two lines, in one paragraph: model["base"](x), BS309, a page, a trap.'
    )
    assert told.locator("p code").all_inner_texts() == ["one", 'model["base"](x)']
    assert [a.get_attribute("href") for a in told.locator("a").all()] == ["https://pytorch.org"]
    assert told.locator("ul li").all_inner_texts() == ["one goes on", "two"]
    assert told.locator("ol li").all_inner_texts() == ["<script>alert(1)</script>"]
    assert told.locator("tr").all_inner_texts() == ["code\twhat", "a\tb"]
    assert told.locator("pre").inner_text() == "<b># no heading</b>"
    told.get_by_role("button", name="BS309").click()
    page.get_by_role("dialog", name="BS309").wait_for()
    assert told.count() == 0


def test_a_number_that_is_not_of_every_step_says_where_it_was_last_finite(look):
    page = look("#/broken/metrics")
    expect(chart(page, "update / weight").locator(".now")).to_have_text("NaN from step 32 on, finite at step 16")
    expect(chart(page, "gradient norm").locator(".now")).to_have_text("NaN from step 30 on")


def test_runs_that_were_set_otherwise_are_compared_with_the_best_when_it_is_asked(look, tmp_path):
    for name, lr in (("slow", 1e-5), ("fast", 3e-3), ("same", 1e-5)):
        digits(tmp_path / name, 30, lr=lr)
    with Server(Library(tmp_path)) as server:
        page = look("#/slow/compare?with=fast,same", server=server)
        said = page.locator("main").inner_text()
        assert "slow and same differ from fast in lr, so their weights diverge from the first update on." in said
        assert "First bitwise difference" not in said
        page.get_by_text("The first difference of slow").click()
        page.get_by_text("First bitwise difference").wait_for()
        drawn(page)
        assert (
            "Step 1, after the update of step 0, stem.weight (weights)"
            in page.locator(".two details").first.inner_text()
        )
        page = look("#/slow/compare?with=same", server=server)
        assert "every number is the same in both" in page.locator("main").inner_text()


def test_a_number_that_ends_in_nan_says_since_when_and_is_marked(look):
    page = look("#/broken/metrics")
    card = chart(page, "loss")
    expect(card.locator(".now")).to_have_text("NaN from step 30 on")
    marked = """(board) => { const pen = board.getContext("2d"), d = pen.getImageData(0, 8, board.width, 4).data;
        let first = -1;
        for (let k = 0; k < d.length; k += 4)
            if (d[k] > 180 && d[k + 1] < 60 && d[k + 2] > 80) {
                const x = (k / 4) % board.width;
                first = first < 0 ? x : Math.min(first, x);
            }
        return first / board.width }"""
    assert 0.5 < card.locator("canvas").evaluate(marked) < 0.75


def test_runs_that_share_no_tensor_are_not_said_to_be_the_same(look):
    page = look("#/first/compare?with=hostile")
    said = page.locator("main").inner_text()
    assert "Different programs" in said
    assert "hostile and first have different scripts or parameters, so there is no step at which they diverge." in said
    assert "Lowest loss" not in said
    assert "every number is the same" not in said

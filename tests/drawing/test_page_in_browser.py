"""The page and the SVG in a browser: what a reader does with mouse and keys, and what is then to be seen."""

import re

import pytest
import torch
from graphs import chain, sampler, tangle, transformer
from torch import nn

import backsight
from backsight.drawing import Pin

HOSTILE = {
    "markup": '</script></svg><img src=x onerror=alert(1)><script>alert("2")</script>',
    "quotes": "\"'`&quot;\\",
    "newline": "first\nsecond\r\tthird",
    "right to left": "\u202eשלום\u202c",
    "long": "n" * 500,
    "template": "${alert(3)} {{4}} javascript:alert(5)",
}

NAMES = "[...scene.shown].map((i) => boxes[i].name || boxes[i].op)"
LIT = "(style) => [...world.querySelectorAll('.box.' + style)].map((g) => g.box.name || g.box.op)"
OVERFLOWING = """() => [...document.querySelectorAll("g")].flatMap((g) => {
  const home = [...g.children].filter((e) => e.matches("rect.n, rect.t")).pop();
  if (!home) return [];
  const box = home.getBBox();
  const texts = [...g.children].filter((e) => e.tagName === "text");
  return texts.filter((e) => {
    const t = e.getBBox(), wide = t.x < box.x || t.x + t.width > box.x + box.width;
    return wide || t.y < box.y - 1 || t.y + t.height > box.y + box.height + 1;
  }).map((e) => e.textContent);
})"""
CROSSED = """() => {
  const place = (e) => { const m = e.getCTM(); return ([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]; };
  const texts = [...document.querySelectorAll("text")].map((e) => {
    const b = e.getBBox(), at = place(e), [l, t] = at([b.x, b.y]), [r, u] = at([b.x + b.width, b.y + b.height]);
    return { l, t, r, u, text: e.textContent };
  });
  return [...document.querySelectorAll("path.w")].flatMap((path) => {
    const at = place(path), length = path.getTotalLength(), met = [];
    for (let s = 0; s <= length; s += 2) {
      const p = path.getPointAtLength(s), [x, y] = at([p.x, p.y]);
      for (const t of texts) if (x > t.l && x < t.r && y > t.t && y < t.u) met.push(t.text);
    }
    return [...new Set(met)];
  });
}"""


def box(page, name):
    """Return an operation, or a closed module, by its accessible name."""
    return page.locator("g.box").and_(page.get_by_role("button", name=re.compile(rf"^(open )?{re.escape(name)}\b")))


def hostile():
    """Return a graph in which everything has a hostile name."""
    model = nn.ModuleDict({name.replace(".", ""): nn.Linear(3, 3) for name in HOSTILE.values()})
    x = torch.ones(2, 3)
    with backsight.watch():
        for layer in model.values():
            x = layer(x).relu()
        return backsight.graph(x.sum(), model=model)


def test_a_click_opens_a_module_and_a_click_on_its_head_closes_it(visit):
    page = visit(transformer().to_html(max_boxes=5))
    closed = ["model.embed", "model.h.0…3", "model.head", "LogSoftmax", "NllLoss"]
    assert page.evaluate(NAMES) == closed
    box(page, "model.h.0…3").click()
    opened = ["model.embed", "norm1", "attn", "Add", "norm2", "mlp", "Add", "model.head", "LogSoftmax", "NllLoss"]
    assert page.evaluate(NAMES) == opened
    page.get_by_role("button", name="close model.h.0…3").click(position={"x": 8, "y": 8})
    assert page.evaluate(NAMES) == closed


def test_a_picture_opens_whole_if_that_can_be_read_or_at_the_loss_and_says_that_there_is_more(visit):
    above, below = (("button", f"more {side}") for side in ("above", "below"))

    def seen(page, which):
        return page.get_by_role(which[0], name=which[1]).is_visible()

    whole = visit(transformer().to_html(max_boxes=5))
    assert not seen(whole, above) and not seen(whole, below)
    page = visit(transformer().to_html(max_boxes=60))
    assert seen(page, above) and not seen(page, below)
    root = page.locator("g.box", has_text="loss").bounding_box()
    stage = page.locator("#stage").bounding_box()
    assert stage["y"] < root["y"] and root["y"] + root["height"] < stage["y"] + stage["height"]
    page.get_by_role("button", name="more above").click()
    assert seen(page, below) and not seen(page, above)


def test_the_buttons_open_and_close_everything_zoom_and_fit(visit):
    page = visit(transformer().to_html(max_boxes=5))
    page.get_by_role("button", name="open all").click()
    assert len(page.evaluate(NAMES)) == 16
    page.get_by_role("button", name="close all").click()
    assert len(page.evaluate(NAMES)) == 5
    width = box(page, "model.head").bounding_box()["width"]
    page.get_by_role("button", name="zoom in").click()
    assert box(page, "model.head").bounding_box()["width"] > width * 1.2
    page.get_by_role("button", name="fit").click()
    assert box(page, "model.head").bounding_box()["width"] == pytest.approx(width, abs=1)


def test_the_wheel_zooms_about_the_pointer_and_dragging_moves(visit):
    page = visit(transformer().to_html(max_boxes=5))
    before = box(page, "model.head").bounding_box()
    x, y = before["x"] + before["width"] / 2, before["y"] + before["height"] / 2
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_function("before => k > before", arg=1.3)
    after = box(page, "model.head").bounding_box()
    assert after["width"] > before["width"] * 1.3
    assert after["x"] + after["width"] / 2 == pytest.approx(x, abs=2)
    assert after["y"] + after["height"] / 2 == pytest.approx(y, abs=2)
    page.mouse.move(300, 400)
    page.mouse.down()
    page.mouse.move(340, 430, steps=4)
    page.mouse.up()
    moved = box(page, "model.head").bounding_box()
    assert (moved["x"] - after["x"], moved["y"] - after["y"]) == (pytest.approx(40, abs=3), pytest.approx(30, abs=3))
    assert len(page.evaluate(NAMES)) == 5, "a drag is no click"


def test_the_keyboard_reaches_opens_follows_and_closes(visit):
    page = visit(transformer().to_html(max_boxes=5))
    focused = "document.activeElement.getAttribute('aria-label')"
    for _ in range(8):
        page.keyboard.press("Tab")
    assert page.evaluate(focused).startswith("open model.h.0…3 "), "after the search, five buttons and the embedding"
    page.keyboard.press("Enter")
    assert (len(page.evaluate(NAMES)), page.evaluate(focused)) == (10, "close model.h.0…3 × 4")
    box(page, "norm1").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused).startswith("open attn")
    page.keyboard.press("c")
    assert len(page.evaluate(NAMES)) == 5
    page.keyboard.press("o")
    assert len(page.evaluate(NAMES)) == 16
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_what_has_the_keyboard_can_be_seen(visit):
    page = visit(transformer().to_html(max_boxes=5))
    box(page, "model.head").focus()
    page.keyboard.press("ArrowDown")
    width = page.evaluate("getComputedStyle(document.activeElement.querySelector('.n')).strokeWidth")
    assert float(width.removesuffix("px")) > 2
    assert page.locator("#tip").is_visible()


def test_an_operation_shows_where_its_gradient_comes_from_and_where_it_goes(visit):
    page = visit(transformer().to_html(max_boxes=20))
    page.get_by_role("button", name="more above").click()
    box(page, "Softmax").click()
    assert page.evaluate(LIT, "origin") == ["Softmax"]
    back = ["Mul", "out", "Add", "norm2", "0", "1", "2", "Add", "model.head", "LogSoftmax", "NllLoss"]
    assert page.evaluate(LIT, "from") == back
    assert page.evaluate(LIT, "to") == ["model.embed", "norm1", "mix", "Split"]
    assert page.evaluate(LIT, "dim") == []
    assert page.get_by_role("status").inner_text() == (
        "Softmax: its gradient comes from 11 boxes (red) and goes to 4 boxes (blue) · Esc ends"
    )
    page.keyboard.press("Escape")
    assert page.evaluate(LIT, "from") == page.evaluate(LIT, "to") == []


def test_a_search_finds_within_closed_modules_and_goes_there(visit):
    page = visit(transformer().to_html(max_boxes=5))
    find = page.get_by_role("searchbox", name="find")
    find.fill("gelu")
    assert (page.evaluate(LIT, "hit"), page.locator("#count").inner_text()) == (["model.h.0…3"], "1 found")
    find.press("Enter")
    assert (page.evaluate(LIT, "here"), page.locator("#count").inner_text()) == (["1"], "1 of 1")
    place = box(page, "1").bounding_box()
    assert 0 <= place["y"] <= 740
    find.press("Escape")
    assert page.evaluate(LIT, "hit") == []


def test_everything_open_stays_within_what_can_be_laid_out(visit):
    page = visit(tangle(1000).to_html())
    page.keyboard.press("o")
    assert 60 < len(page.evaluate(NAMES)) <= 500


@pytest.mark.slow
def test_a_hundred_thousand_operations_open_in_a_page(visit):
    page = visit(chain(100_000).to_html())
    assert len(page.evaluate(NAMES)) < 10


def test_the_pointer_is_told_what_is_known_within_the_window(visit):
    page = visit(transformer().to_html())
    page.keyboard.press("f")
    page.locator("g.box").last.hover()
    tip = page.locator("#tip")
    place = tip.bounding_box()
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 1280
    assert place["y"] + place["height"] <= 800
    box(page, "model.embed").hover()
    told = tip.inner_text().split("\n")
    assert told[0].startswith("EmbeddingBackward0, node ")
    assert {"makes 2×5×8 float32 cpu", "leaves: model.embed.weight"} <= set(told)
    page.mouse.move(5, 400)
    assert tip.is_hidden()


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_page_and_picture_follow_the_reader_s_colours(visit, scheme, dark):
    page = visit(transformer().to_html(), color_scheme=scheme)
    back, ink = page.evaluate(
        "(({ backgroundColor, color }) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    assert (brightness(back) < 50, brightness(ink) > 200) == (dark, dark)
    alone = visit(transformer().to_svg(), "picture.svg", color_scheme=scheme)
    fill = alone.evaluate("getComputedStyle(document.querySelector('.page')).fill")
    assert (brightness(fill) < 50) == dark


@pytest.mark.parametrize("form", ["to_html", "to_svg"])
def test_paper_stays_white(visit, form):
    page = visit(getattr(transformer(), form)(), "page.html" if form == "to_html" else "page.svg", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    element, colour = ("body", "backgroundColor") if form == "to_html" else (".page", "fill")
    assert brightness(page.evaluate(f"getComputedStyle(document.querySelector('{element}')).{colour}")) == 255


def brightness(colour):
    """Return the mean of red, green and blue of `rgb(r, g, b)`."""
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_a_page_is_printed_whole_on_one_sheet_without_its_buttons(visit):
    page = visit(transformer().to_html(pins=[Pin("loss", "a remark")]))
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert len(sheets) == 1
    page.emulate_media(media="print")
    assert page.get_by_role("button", name="open all").is_hidden()
    assert page.get_by_text("a remark").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    stage, world = page.locator("#stage").bounding_box(), page.locator("#world").bounding_box()
    assert stage["y"] <= world["y"]
    assert world["y"] + world["height"] <= stage["y"] + stage["height"]


def test_a_long_page_is_printed_on_several_sheets_large_enough_to_be_read(visit):
    page = visit(tangle(25).to_html(max_boxes=60))
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) > 1
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("g.box").first.bounding_box()["height"] >= 30
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#stage").get_attribute("style")


def test_hostile_names_are_text_in_the_page(visit):
    pins = [Pin(0, name) for name in HOSTILE.values()]
    page = visit(hostile().to_html(title=HOSTILE["markup"], pins=pins))
    assert page.evaluate("[document.scripts.length, document.images.length]") == [2, 0]
    assert page.title() == HOSTILE["markup"]
    page.keyboard.press("f")
    page.locator("g.box").last.hover()
    assert HOSTILE["markup"] in page.locator("#tip").inner_text()
    page.get_by_role("searchbox").fill('alert("2")')
    assert page.locator("#count").inner_text() == "1 found"
    assert page.evaluate(OVERFLOWING) == []


def test_hostile_names_are_text_in_the_picture(visit):
    page = visit(hostile().to_svg(title=HOSTILE["markup"], pins=[Pin(0, HOSTILE["markup"])]), "picture.svg")
    assert page.evaluate("document.querySelectorAll('script, img, foreignObject').length") == 0
    assert page.evaluate(OVERFLOWING) == []


@pytest.mark.parametrize(
    "graph",
    [transformer, sampler, lambda: transformer(optimizer=torch.optim.SGD), lambda: tangle(40), hostile],
    ids=["transformer", "sampler", "trained", "tangle", "hostile"],
)
@pytest.mark.parametrize("form", ["to_html", "to_svg"])
def test_in_the_reader_s_font_no_text_leaves_its_box_and_no_line_runs_through_one(visit, graph, form):
    page = visit(getattr(graph(), form)(max_boxes=60), "page.html" if form == "to_html" else "picture.svg")
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(CROSSED) == []

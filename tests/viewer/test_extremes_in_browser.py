"""What a picture of many tensors must not hide: the smallest of them, where NaN comes from, and of which step it is."""

from __future__ import annotations

import shutil

import pytest
import torch
from looking import at, drawn, expect
from torch import nn

import backsight as bs
from backsight.viewer import Library, Server


class Deep(nn.Module):
    """Layers in which the gradient vanishes, as their weights are small."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(20)])
        self.last = nn.Linear(8, 2)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.05)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.last(x)


class Scaled(nn.Module):
    """A model in which no module makes the NaN, but an operation between them."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 1)
        self.var = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.head(x) * self.var.sqrt()


def _trained(folder, model, steps, before=lambda model, step: None):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with bs.record(model, optimizer, folder) as rec:
        for step in range(steps):
            before(model, step)
            layer = next(iter(model.values())) if isinstance(model, nn.ModuleDict) else model
            loss = layer(torch.randn(16, 8)).square().mean()
            rec.mark(loss=loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    folder = tmp_path_factory.mktemp("extremes")

    def becomes_negative(model, step):
        if step == 6:
            model.var.data.fill_(-0.25)

    _trained(folder / "deep", Deep(), 8)
    _trained(folder / "long", nn.ModuleDict({"a_very_long_name_" * 9: nn.Linear(8, 2)}), 3)
    _trained(folder / "nan", Scaled(), 10, becomes_negative)
    with Server(Library(folder)) as server:
        yield server


def box(page, text):
    return page.locator("[data-box]", has_text=text).first


def number(box):
    return box.locator("text.amount").text_content()


def fill(box):
    return box.locator(".n").first.evaluate("(n) => getComputedStyle(n).fill")


def test_a_box_of_many_layers_shows_their_range_in_the_colour_of_the_smallest(look):
    page = look("#/deep/graph?fold=0&kind=grad&stat=l2")
    one_by_one = [number(box(page, f"layers.{k} ")) for k in (0, 19)]
    lowest = fill(box(page, "layers.0 "))
    page = look("#/deep/graph?fold=1&kind=grad&stat=l2")
    folded = box(page, "layers.0")
    low, high = number(folded).split(" to ")
    assert [low, high] == one_by_one
    assert float(low.replace("−", "-")) < 1e-6 * float(high)
    assert fill(folded) == lowest
    folded.hover()
    said = page.locator(".bubble").inner_text()
    assert f"norm {low} (layers.0." in said
    assert f"to {high} (layers.19." in said
    assert "the largest of each of 20 modules" in said


def test_a_model_of_more_layers_than_fit_is_opened_once(look):
    page = look("#/deep/graph")
    assert page.locator("[data-box]").count() == 43
    assert number(box(page, "layers.0 ")) != number(box(page, "layers.19 "))


def test_an_operation_that_is_not_recorded_and_leads_to_nan_is_marked(look):
    page = look("#/nan/graph?kind=output")
    assert page.locator("output.where").inner_text() == "step 6, NaN or ∞ begins"
    assert number(box(page, "Mul")) == "NaN"
    assert [g.locator("text").first.text_content() for g in page.locator(".suspect").all()] == ["Sqrt"]
    assert number(box(page, "Sqrt")) == "NaN?"
    assert "NaN or ∞ may arise here" in box(page, "Sqrt").get_attribute("aria-label")
    page.get_by_label("step", exact=True).press("ArrowLeft")
    expect(page.locator(".suspect")).to_have_count(0)


def test_of_a_selected_box_the_sign_of_its_values_is_seen(look):
    page = look("#/nan/graph?kind=output&step=6")
    box(page, "Sqrt").locator("text").first.click()
    panel = page.get_by_label("the selected box")
    expect(panel.get_by_text("Recorded, step 6")).to_be_visible()
    assert "0.25\n−0.25" in panel.inner_text()
    assert panel.locator("td.bad").first.inner_text() == "NaN"


@pytest.mark.parametrize("width", [1440, 390])
def test_the_thumb_of_the_slider_stands_above_the_cursor_of_the_loss(look, width):
    page = look("#/nan/graph?kind=weight&step=0", viewport={"width": width, "height": 900})
    slider = page.get_by_label("step", exact=True).bounding_box()
    chart = page.locator(".marks canvas").bounding_box()
    left = 130 if width > 720 else 88
    assert slider["x"] + 8 == pytest.approx(chart["x"] + left, abs=1)
    assert slider["x"] + slider["width"] == pytest.approx(chart["x"] + chart["width"], abs=1)


def test_columns_stand_above_their_step_where_rows_have_a_scroll_bar(browser, server):
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    kind = browser.browser_type
    with kind.launch(
        executable_path=program, args=["--no-sandbox"], ignore_default_args=["--hide-scrollbars"]
    ) as shown:
        page = shown.new_page(viewport={"width": 1280, "height": 500})
        page.goto(server.url)
        page.goto(f"http://127.0.0.1:{server.port}/#/deep/heatmap?kind=grad")
        drawn(page)
        assert page.locator(".scroll").evaluate("(s) => s.offsetWidth - s.clientWidth") > 5
        ends = [page.locator(f"{place} canvas").bounding_box() for place in (".cells", ".axis", ".marks")]
        assert len({end["x"] + end["width"] for end in ends}) == 1


def test_an_open_module_has_no_row_of_colours_of_its_own(look):
    page = look("#/deep/heatmap?kind=grad")
    row = page.locator(".row.group", has_text="layers").bounding_box()
    board = page.locator(".cells canvas")
    top = row["y"] + row["height"] / 2 - board.bounding_box()["y"]
    alpha = f"(b) => b.getContext('2d').getImageData(40, {top} * devicePixelRatio, 1, 1).data[3]"
    assert board.evaluate(alpha) == 0
    page.locator(".row.group", has_text="layers").click()
    drawn(page)
    assert "closed=" in at(page)
    assert board.evaluate(alpha) == 255


def test_a_scalar_has_no_standard_deviation_and_its_range_is_told(look):
    page = look("#/nan/tensor?tensor=var&kind=weight&step=6")
    assert page.locator("h2").first.inner_text() == "var"
    assert "from −0.25 to 1" in page.locator("figcaption").first.inner_text()
    heads = page.locator("th").all_inner_texts()
    assert heads[:3] == ["step", "NaN", "infinite"]
    (row,) = (row for row in page.locator("tbody tr").all() if row.locator("td").first.inner_text() == "6")
    cells = dict(zip(heads, row.locator("td").all_inner_texts(), strict=True))
    assert (cells["mean"], cells["standard deviation"]) == ("−0.25", "–")


@pytest.mark.parametrize("name", ["model.layers.3.weight", "3.weight"])
def test_a_tensor_is_found_with_and_without_the_beginning_of_its_name(look, name):
    page = look(f"#/deep/tensor?tensor={name}")
    assert page.locator("h2").first.inner_text() == "layers.3.weight"
    assert page.locator("figure").count() > 2


def test_a_name_that_several_tensors_end_in_is_of_none(look):
    page = look("#/deep/tensor?tensor=weight&kind=grad")
    assert page.get_by_text("No such tensor").is_visible()


def test_the_end_of_a_long_name_is_seen(look):
    page = look("#/long/heatmap?kind=grad", viewport={"width": 390, "height": 844})
    for row, end in zip(page.locator(".labels .row").all(), ("weight", "bias"), strict=True):
        end_ = row.locator(".name span").last
        assert end_.inner_text().endswith(end)
        assert end_.evaluate("(e) => e.scrollWidth <= e.offsetWidth && e.offsetLeft + e.offsetWidth") <= 170


def test_all_that_is_chosen_in_a_graph_has_one_line(look):
    page = look("#/deep/graph", viewport={"width": 1440, "height": 900})
    tops = [part.bounding_box()["y"] for part in page.locator(".bar > *:visible").all() if part.bounding_box()["width"]]
    assert max(tops) - min(tops) < 20


def test_on_a_phone_the_graph_begins_in_the_upper_third(look):
    page = look("#/deep/graph", viewport={"width": 390, "height": 844})
    assert page.locator(".pane").bounding_box()["y"] < 844 / 3

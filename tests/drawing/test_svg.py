"""The picture as SVG: well-formed, self-contained, text within its box, harmless whatever things are called."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from graphs import chain, sampler, tangle, transformer
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import backsight
from backsight.drawing import Look, Pin, staged, svg
from backsight.drawing.card import card
from backsight.drawing.metrics import fitted, text_width

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script>\"'&\n\t\x00\u202eabc]]>--><![CDATA[" + "n" * 500


def drawn(graph, **look):
    return ElementTree.fromstring(svg(staged(graph, Look(**look))))


def named_evil():
    model = nn.Module()
    model.add_module('a"b<c>&', nn.Linear(3, 3))
    loss = getattr(model, 'a"b<c>&')(torch.ones(2, 3)).sum()
    return backsight.graph(loss, model={EVIL.replace(".", ""): model, "other": nn.Linear(1, 1)})


@pytest.mark.parametrize("graph", [transformer, lambda: sampler(5), lambda: chain(30), lambda: tangle(100), named_evil])
def test_the_picture_is_well_formed_and_says_what_it_is(graph):
    root = drawn(graph())
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text
    assert "operations" in root.find(f"{SVG}desc").text
    assert root.get("aria-label") == root.find(f"{SVG}desc").text


def test_nothing_is_fetched_and_nothing_runs():
    text = svg(staged(named_evil(), Look(title=EVIL, pins=[Pin(0, EVIL)])))
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|@font-face|url\(|href", text)
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "path", "text"}
    attributes = {name for element in ElementTree.fromstring(text).iter() for name in element.attrib}
    assert not any(name.startswith("on") for name in attributes)


def test_names_that_look_like_markup_are_shown_as_they_are():
    model = nn.ModuleDict({'a"b<c>&': nn.Linear(3, 3)})
    root = drawn(backsight.graph(model['a"b<c>&'](torch.ones(2, 3)).sum(), model=model))
    assert 'a"b<c>&' in {element.text for element in root.iter(f"{SVG}text")}


def boxes_of(root):
    """Yield each box as (its rectangle, texts within), in coordinates of the box."""
    for group in root.iter(f"{SVG}g"):
        if group.get("data-box"):
            rects = [r for r in group.findall(f"{SVG}rect") if r.get("class").split()[0] == "n"]
            yield rects[-1], list(group.iter(f"{SVG}text"))


@pytest.mark.parametrize("graph", [transformer, lambda: tangle(100), named_evil])
def test_no_text_leaves_its_box(graph):
    for rect, texts in boxes_of(drawn(graph(), depth=-1)):
        assert texts
        for text in texts:
            left, width = float(text.get("x")), float(text.get("textLength"))
            assert left >= 4
            assert left + width <= float(rect.get("width")) - 4


def test_texts_on_one_line_of_a_box_do_not_overlap():
    for _, texts in boxes_of(drawn(transformer(optimizer=torch.optim.SGD), depth=-1)):
        lines = {}
        for text in texts:
            lines.setdefault(round(float(text.get("y")) / 10), []).append(text)
        for line in lines.values():
            line.sort(key=lambda text: float(text.get("x")))
            for a, b in pairwise(line):
                assert float(a.get("x")) + float(a.get("textLength")) <= float(b.get("x"))


def test_everything_is_on_the_page():
    root = drawn(transformer(), depth=-1, pins=[Pin(0, "a remark " * 30)])
    width, height = float(root.get("width")), float(root.get("height"))
    x = y = 0.0
    for element in root.iter():
        if element.tag == f"{SVG}text" and element.get("textLength"):
            assert float(element.get("textLength")) <= width
    for path in root.iter(f"{SVG}path"):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", re.split("[VCh]", path.get("d"))[0])]
        x, y = max(x, numbers[0]), max(y, numbers[1])
    assert x < width
    assert y < height


def test_a_cut_name_can_be_read_in_full():
    model = nn.ModuleDict({"a_very_long_name_for_a_layer_that_does_next_to_nothing": nn.Linear(2, 2)})
    graph = backsight.graph(next(iter(model.values()))(torch.ones(1, 2)).sum(), model=model)
    texts = list(drawn(graph).iter(f"{SVG}text"))
    (cut,) = [text for text in texts if text.get("class") == "name"]
    assert "…" in cut.text
    assert cut.find(f"{SVG}title").text == "model.a_very_long_name_for_a_layer_that_does_next_to_nothing"


def test_light_and_dark_follow_the_reader_unless_told():
    scene = staged(chain(2), Look())
    assert "prefers-color-scheme" in svg(scene)
    light, dark = svg(scene, theme="light"), svg(scene, theme="dark")
    assert "prefers-color-scheme" not in light + dark
    assert "#ffffff" in light
    assert "#ffffff" not in dark


def test_the_legend_names_what_occurs_and_nothing_else():
    graph = transformer(optimizer=torch.optim.SGD, trained=lambda name: "norm" not in name)
    words = " ".join(text.text for text in drawn(graph, depth=-1).iter(f"{SVG}text"))
    assert "in an optimizer" in words
    assert "in no optimizer" in words
    assert "overwritten" not in words
    assert "on the path" not in words
    assert "on the path" in " ".join(text.text for text in drawn(graph, path=("loss", 3)).iter(f"{SVG}text"))


def test_equal_graphs_make_equal_pictures():
    assert svg(staged(transformer(), Look())) == svg(staged(transformer(), Look()))


@given(st.text(max_size=300), st.floats(20, 300), st.booleans())
def test_fitted_text_fits_and_keeps_both_ends(text, room, bold):
    short = fitted(text, room, 12.0, bold=bold)
    assert text_width(short, 12.0, bold=bold) <= room
    if short != text:
        head, _, tail = short.partition("…") if "…" not in text else (short[:0], "", short[len(short) :])
        assert text.startswith(head)
        assert text.endswith(tail)


def test_widths_are_those_of_helvetica():
    assert text_width("weight", 10) == pytest.approx(28.9)
    assert text_width("weight", 10, bold=True) == pytest.approx(31.67)


def test_a_card_is_as_wide_as_it_must_be():
    picture = staged(transformer(), Look())
    for box in picture.boxes:
        own = card(box)
        ends = [text.x + text.width for text in own.texts] + [tag.x + tag.width for tag in own.tags]
        assert max(ends) <= own.width


def test_no_letter_is_too_small_to_be_read():
    sizes = re.findall(r"font-size:([\d.]+)px", svg(staged(chain(2), Look())))
    assert len(sizes) > 3
    assert min(map(float, sizes)) >= 10.5

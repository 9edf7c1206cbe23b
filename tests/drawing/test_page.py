"""The page: one file, small, that runs nothing but its own script and lays out as the SVG does."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import torch
from graphs import chain, sampler, tangle, transformer
from torch import nn

import backsight
from backsight.drawing import Look, Pin, staged
from backsight.drawing.card import card
from backsight.drawing.layout import laid_out
from backsight.drawing.page import SCRIPTS, page
from backsight.text.page import own

EVIL = "</script><script>alert(1)</script><!-- \u2028 & \"' <img src=x onerror=alert(2)>"

node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")


class Tags(HTMLParser):
    """The tags of a page, and what its scripts contain."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and len(self.scripts):
            self.scripts[-1] += data


def test_the_page_is_one_file_that_may_fetch_nothing():
    read = Tags(transformer().to_html())
    assert all(not {"src", "href"} & attrs.keys() for _, attrs in read.tags)
    policy = next(a["content"] for _, a in read.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_a_page_of_a_transformer_is_small():
    assert len(transformer(blocks=12).to_html().encode()) < 60_000


def test_no_name_becomes_markup_or_script():
    weight = torch.ones(3, 3, requires_grad=True)
    model = nn.ModuleDict({EVIL.replace(".", ""): nn.Linear(3, 3)})
    loss = next(iter(model.values()))(weight).sum()
    graph = backsight.graph(loss, model=model)
    plain, evil = Tags(transformer().to_html()), Tags(graph.to_html(title=EVIL, pins=[Pin(0, EVIL)]))
    assert [tag for tag, _ in evil.tags if tag in ("script", "img")] == ["script", "script"]
    assert evil.scripts[1] == plain.scripts[1], "the script is always the same"
    told = json.loads(evil.scripts[0])
    assert EVIL.replace(".", "").replace("\u2028", "\\u2028") in told["boxes"][0]["name"]


def test_the_script_makes_no_markup_of_text():
    script = own("backsight.drawing.page", *SCRIPTS)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|import\(", script
    )


def test_a_hundred_thousand_operations_make_a_page_that_is_still_one():
    assert len(chain(100_000).to_html()) < 60_000


def test_a_page_with_thousands_of_boxes_tells_less_of_each():
    scene = staged(tangle(1000), Look())
    assert "details of" in page(scene, lambda box: f"details of {box.index}")
    many = staged(tangle(6000), Look())
    assert "details of" not in page(many, lambda box: f"details of {box.index}")


def test_the_page_says_for_keyboards_and_readers_what_can_be_done():
    text = transformer().to_html()
    assert 'role="status"' in text
    assert 'aria-label="find"' in text
    assert "aria-expanded" in text
    assert "@media print" in text
    assert "screen and (prefers-color-scheme:dark)" in text


_PARITY = """
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const boxes = given.boxes, standsFor = given.standsFor, shown = new Set(given.shown);
const page = laidOut({ boxes, standsFor, shown, links: given.links }, (b) => b.size, (b) => b.head);
console.log(JSON.stringify({
  frames: [...page.frames].map(([i, f]) => [i, f.x, f.y, f.width, f.height]),
  lines: page.lines.map((l) => l.points), width: page.width, height: page.height,
}));
"""


@node
@pytest.mark.parametrize("graph", [transformer, lambda: sampler(5), lambda: tangle(120), lambda: chain(9)])
def test_the_page_lays_out_as_the_svg_does(graph):
    scene = staged(graph(), Look(max_boxes=60))
    sizes = {b.index: (card(b).width, card(b).height) for b in scene.boxes}
    expected = laid_out(scene, lambda b: sizes[b.index], lambda b: 100.0)
    given = {
        "boxes": [
            {"parent": -1 if b.parent is None else b.parent, "times": b.times, "size": sizes[b.index], "head": 100.0}
            for b in scene.boxes
        ],
        "standsFor": scene.stands_for,
        "shown": list(scene.shown),
        "links": scene.shown_links,
    }
    script = own("backsight.drawing.page", "layout.js", "nesting.js") + _PARITY
    done = subprocess.run(["node", "-e", script], input=json.dumps(given), capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    frames = {i: place for i, *place in made["frames"]}
    for i, frame in expected.frames.items():
        assert frames[i] == pytest.approx([frame.x, frame.y, frame.width, frame.height], abs=1e-6)
    assert len(made["lines"]) == len(expected.lines)
    for points, line in zip(made["lines"], expected.lines, strict=True):
        assert [n for point in points for n in point] == pytest.approx(
            [n for point in line.points for n in point], abs=1e-6
        )


@node
@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_is_valid_as_it_is_shipped(name):
    script = own("backsight.drawing.page", name)
    subprocess.run(["node", "--check", "-"], input=script, capture_output=True, text=True, check=True)

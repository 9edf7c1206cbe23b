"""Other people's formats: valid, escaped, complete."""

import json
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import torch
from graphs import sampler, transformer
from torch import nn

import backsight
from backsight.drawing import NoRasterizer
from backsight.drawing.exports.png import SCALE, spaced

EVIL = "<script>\"'\n]\\-->`;"
NODE = "{http://graphml.graphdrawing.org/xmlns}node"
EDGE = "{http://graphml.graphdrawing.org/xmlns}edge"


def evil():
    weight = torch.ones(3, requires_grad=True)
    return backsight.graph(weight.exp().sum(), model={EVIL.replace(".", ""): nn.Linear(1, 1)})


def test_dot_has_a_cluster_for_every_open_module_and_an_edge_for_every_link():
    drawing = transformer().draw(max_boxes=20)
    text = drawing.dot()
    assert text.count("subgraph") == sum(b.opened for b in drawing.scene.boxes)
    assert text.count("{") == text.count("}")
    assert text.count("->") == len(drawing.scene.shown_links)


def test_dot_quotes_whatever_things_are_called():
    text = transformer().draw(title='a "quoted" \\ title').dot()
    assert 'label="a \\"quoted\\" \\\\ title' in text


@pytest.mark.skipif(not shutil.which("dot"), reason="needs Graphviz")
def test_graphviz_reads_the_dot():
    text = transformer().to_dot(title=EVIL)
    assert subprocess.run(["dot", "-Tplain"], input=text.encode(), capture_output=True, check=True).stdout


def test_mermaid_is_short_enough_for_an_issue_and_balanced():
    drawing = sampler().draw()
    text = drawing.mermaid()
    assert text.startswith("flowchart TB\n")
    assert len(text) < 10_000
    assert text.count("subgraph") == len(re.findall(r"^\s*end$", text, re.M))
    assert text.count("-->") == len(drawing.scene.shown_links)


def test_mermaid_spells_out_what_it_would_read_as_its_own():
    model = nn.ModuleDict({'a"[b]<i>;end': nn.Linear(3, 3)})
    graph = backsight.graph(model['a"[b]<i>;end'](torch.ones(2, 3)).sum(), model=model)
    (line,) = [line for line in graph.draw().mermaid().split("\n") if "Linear" in line]
    label = line.partition('["')[2].rpartition('"]')[0]
    assert not set('"[];') & set(re.sub(r"#\d+;|</?b>|<br/>", "", label))


def test_json_holds_the_whole_folded_picture():
    drawing = transformer().draw()
    plain = json.loads(drawing.json())
    assert len(plain["boxes"]) == len(drawing.scene.boxes)
    assert plain["boxes"][0]["op"] == "Embedding"
    assert [tuple(link) for link in plain["links"]] == list(drawing.scene.links)


def test_json_has_the_numbers_of_every_box_the_first_of_each_too():
    drawing = transformer().draw()
    boxes = json.loads(drawing.json())["boxes"]
    numbers = [(box["index"], box["parent"], box["node"]) for box in boxes]
    assert numbers == [(box.index, box.parent, box.node) for box in drawing.scene.boxes]
    assert {0} < {box["node"] for box in boxes}, "the loss is node 0"


def test_graphml_holds_every_node_and_edge_of_the_graph():
    graph = transformer()
    root = ElementTree.fromstring(graph.draw().graphml())
    assert len(list(root.iter(NODE))) == len(graph)
    assert len(list(root.iter(EDGE))) == len(list(graph.edges))


def test_graphml_is_read_by_networkx_as_the_same_graph():
    networkx = pytest.importorskip("networkx")
    graph = transformer()
    read, made = networkx.parse_graphml(graph.draw().graphml()), graph.to_networkx()
    assert len(read) == len(made)
    assert read.nodes["n0"]["op"] == made.nodes[0]["op"] == "NllLoss"


def test_networkx_gets_edges_as_data_flows():
    networkx = pytest.importorskip("networkx")
    graph = transformer()
    made = graph.to_networkx()
    assert networkx.is_directed_acyclic_graph(made)
    assert made.number_of_edges() == len(list(graph.edges))
    assert [n for n in made if not made.out_degree(n)] == [0], "the loss is consumed by nothing"
    assert {made.nodes[n]["leaf"] for n in made if not made.in_degree(n)} == {leaf.label for leaf in graph.leaves}


def test_networkx_is_asked_for_only_when_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    graph = transformer()
    assert graph.draw().graphml()
    with pytest.raises(ImportError, match="pip install networkx"):
        graph.to_networkx()


def test_model_explorer_gets_operations_nested_by_module():
    graph = transformer()
    (made,) = json.loads(graph.draw().model_explorer())["graphs"]
    nodes = {node["id"]: node for node in made["nodes"]}
    assert len(nodes) == len(graph) - len(graph.leaves)
    assert {node["namespace"] for node in nodes.values()} > {"h/0/attn", "h/0/attn/mix", "head"}
    assert all(edge["sourceNodeId"] in nodes for node in nodes.values() for edge in node["incomingEdges"])


def test_a_png_without_a_rasterizer_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoRasterizer, match="pip install cairosvg"):
        transformer().draw(tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_a_png_is_made_by_a_program_that_is_there(monkeypatch, tmp_path):
    fake = tmp_path / "rsvg-convert"
    fake.write_text("#!/bin/sh\nprintf 'PNG '; head -c 4\n")
    fake.chmod(0o755)
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    transformer().draw(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == b"PNG <svg"


def test_a_png_has_every_letter_where_the_svg_has_it():
    text = spaced('<text x="10" y="16" class="name" textLength="33.3" lengthAdjust="spacingAndGlyphs">a&lt;b</text>')
    assert text == '<text x="10.00 20.57 31.68" y="16" class="name">a&lt;b</text>'
    svg = transformer().to_svg()
    assert "textLength" not in spaced(svg)
    assert ElementTree.fromstring(spaced(svg)) is not None


def test_a_png_is_as_large_as_the_picture():
    cairosvg = pytest.importorskip("cairosvg", exc_type=(ImportError, OSError))
    assert cairosvg
    data = transformer().draw().png()
    width = int.from_bytes(data[16:20], "big")
    assert width == SCALE * float(ElementTree.fromstring(transformer().to_svg()).get("width"))


def test_every_format_bears_any_name():
    drawing = evil().draw(title=EVIL)
    ElementTree.fromstring(drawing.svg())
    ElementTree.fromstring(drawing.graphml())
    json.loads(drawing.json())
    json.loads(drawing.model_explorer())
    assert drawing.html()
    assert drawing.mermaid()

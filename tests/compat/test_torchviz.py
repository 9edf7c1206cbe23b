"""`make_dot` draws what torchviz draws, where torchviz can, and needs neither Graphviz nor patience."""

import re
import shutil
import weakref
from collections import Counter
from xml.etree import ElementTree

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import backsight
from backsight.compat.torchviz import make_dot

_NODE = re.compile(r'^\t(\w+) \[label=(?:"((?:[^"\\]|\\.)*)"|(\w+))(?: fillcolor=(\w+))?\]$', re.M)
_EDGE = re.compile(r"^\t(\w+) -> (\w+)(?: \[(.*)\])?$", re.M)


class Exp(torch.autograd.Function):
    """An operation of one's own, which saves its result."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[1]


def formula():
    x, y = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    return torch.log(x * y) * torch.sin(y), {"x": x, "y": y}


def perceptron():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return model(torch.randn(5, 4)).mean(), dict(model.named_parameters())


def recurrent():
    cell, x = nn.LSTMCell(3, 4), torch.randn(2, 3)
    state = cell(x, None)
    for _ in range(3):
        state = cell(x, state)
    return state, dict(cell.named_parameters())


def convolution():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(5))
    loss = F.cross_entropy(model(torch.randn(2, 3, 6, 6)), torch.tensor([1, 2]))
    return loss, dict(model.named_parameters())


def square():
    x = torch.ones(3, requires_grad=True)
    return (x * x).sum(), {"x": x}


def custom():
    x = torch.ones(2, 3, requires_grad=True)
    return Exp.apply(x.sin()).sum(), {"x": x}


def view():
    x = torch.ones(2, 3, requires_grad=True)
    return x.exp().view(3, 2)[0], {"x": x}


def several():
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, 1, requires_grad=True)
    hidden = x @ w
    return (hidden.sum(), hidden.relu().unbind(0)[1], x), {"x": x, "w": w}


def concatenated():
    x, y = torch.ones(2, requires_grad=True), torch.ones(3)
    return torch.stack([torch.cat([x, y]), torch.cat([x * 2, y])]).prod(), {"x": x}


PROGRAMS = (formula, perceptron, recurrent, convolution, square, custom, view, several, concatenated)


def picture(source):
    """Return the nodes of a source, as label and colour by name, and its edges with their looks, as often as drawn."""
    nodes = {}
    for name, quoted, bare, fill in _NODE.findall(source):
        # torchviz draws a leaf that is saved too once as each, and Graphviz shows the later.
        if nodes.get(name, ("", ""))[1] != "lightblue":
            nodes[name] = (quoted.replace("\n", "\\n") or bare, fill)
    edges = Counter((a, b, look) for a, b, look in _EDGE.findall(source))
    return nodes, edges


def as_graph(source):
    """Return a source as a graph whose nodes and edges carry all that is seen of them."""
    networkx = pytest.importorskip("networkx")
    nodes, edges = picture(source)
    graph = networkx.DiGraph()
    graph.add_nodes_from((name, {"seen": seen}) for name, seen in nodes.items())
    graph.add_edges_from((a, b, {"seen": (look, count)}) for (a, b, look), count in edges.items())
    assert set(graph) == set(nodes), "every edge joins two nodes that are drawn"
    return graph


@pytest.mark.parametrize("show_attrs", [False, True], ids=["", "attrs"])
@pytest.mark.parametrize("show_saved", [False, True], ids=["", "saved"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_source_is_torchvizs_graph(program, show_saved, show_attrs):
    networkx = pytest.importorskip("networkx")
    torchviz = pytest.importorskip("torchviz", exc_type=ImportError)
    var, params = program()
    options = {"params": params, "show_saved": show_saved, "show_attrs": show_attrs, "max_attr_chars": 20}
    ours, theirs = (as_graph(make(var, **options).source) for make in (make_dot, torchviz.make_dot))

    def same(a, b):
        return a["seen"] == b["seen"]

    def seen(graph):
        return Counter(data["seen"] for _, data in graph.nodes(data=True))

    assert seen(ours) == seen(theirs)
    assert networkx.is_isomorphic(ours, theirs, node_match=same, edge_match=same)


def test_a_nameless_leaf_gets_the_name_of_its_variable():
    temperature = torch.ones(2, requires_grad=True)
    nodes, _ = picture(make_dot((temperature * 2).sum()).source)
    assert ("temperature\\n (2)", "lightblue") in nodes.values()


def test_names_that_were_given_are_in_the_picture_too():
    x = torch.ones(2, requires_grad=True)
    dot = make_dot(x.exp().sum(), params={"the input": x})
    assert dot.drawing.graph.leaves[0].name == "the input"
    assert "the input" in dot._repr_svg_()


def test_the_source_of_equal_graphs_is_equal():
    assert make_dot(*perceptron()).source == make_dot(*perceptron()).source


@pytest.mark.slow
def test_a_graph_far_deeper_than_pythons_stack_is_drawn():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    dot = make_dot(y, show_attrs=True, show_saved=True)
    assert dot.source.count("MulBackward0") == 20_000
    assert len(dot.pipe("svg")) < 20_000


def test_nothing_is_recomputed_to_draw_a_checkpoint():
    calls = []

    def layer(x):
        calls.append(x)
        return x.sin().exp()

    loss = checkpoint(layer, torch.ones(3, requires_grad=True), use_reentrant=False).sum()
    source = make_dot(loss, show_attrs=True, show_saved=True).source
    assert len(calls) == 1
    assert "result\\n packed" in source


def test_a_freed_graph_is_drawn():
    loss, params = perceptron()
    loss.backward()
    assert "freed" in make_dot(loss, params=params, show_attrs=True, show_saved=True).source


def test_a_picture_keeps_no_tensor_alive():
    x = torch.ones(3, requires_grad=True)
    dead, dot = weakref.ref(x), make_dot(x.exp().sum(), params={"x": x}, show_saved=True)
    del x
    assert dead() is None
    assert dot.source


@pytest.mark.parametrize("name", ['a "quoted" name', "two\nlines", "back\\slash", "<b>&", "\u202ertl", "n" * 500])
def test_any_name_is_a_name(name):
    x = torch.ones(3, requires_grad=True)
    dot = make_dot(x.exp().sum(), params={name: x})
    ((label, _),) = [seen for seen in picture(dot.source)[0].values() if seen[1] == "lightblue"]
    written = label.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
    assert written == f"{name}\n (3)"
    ElementTree.fromstring(dot.pipe("svg"))


def test_render_writes_the_picture_and_its_source_and_says_where(tmp_path):
    dot = make_dot(*perceptron())
    assert dot.render("net", directory=str(tmp_path / "new"), format="svg") == str(tmp_path / "new" / "net.svg")
    assert (tmp_path / "new" / "net").read_text() == dot.source
    assert ElementTree.parse(tmp_path / "new" / "net.svg").getroot().tag.endswith("svg")
    dot.format = "html"
    assert dot.render(tmp_path / "page", cleanup=True) == str(tmp_path / "page.html")
    assert not (tmp_path / "page").exists()
    assert dot.render(outfile=tmp_path / "x.gv") == str(tmp_path / "x.gv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "page.html", "x.gv"]


def test_save_writes_the_source(tmp_path):
    dot = make_dot(*formula())
    assert dot.save("formula.gv", tmp_path) == str(tmp_path / "formula.gv")
    assert (tmp_path / "formula.gv").read_text() == dot.source


def test_attributes_of_the_source_can_be_changed():
    dot = make_dot(*formula())
    dot.graph_attr["rankdir"] = "LR"
    assert '\tgraph [rankdir="LR" size="12,12"]' in dot.source


def test_what_only_graphviz_can_make_is_refused_without_it(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="'pdf' needs Graphviz"):
        make_dot(*formula()).render(tmp_path / "x", format="pdf")
    assert not list(tmp_path.iterdir())


def test_graphviz_makes_the_rest_where_it_is_installed(monkeypatch, tmp_path):
    fake = tmp_path / "dot"
    fake.write_text('#!/bin/sh\nprintf "%s " "$1"; head -c 9\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert make_dot(*formula()).pipe("pdf") == b"-Tpdf digraph {"
    fake.write_text("#!/bin/sh\necho 'Format: \"what\" not recognized.' >&2; exit 1\n")
    with pytest.raises(ValueError, match="not recognized"):
        make_dot(*formula()).pipe("what")


@pytest.mark.skipif(not shutil.which("dot"), reason="needs Graphviz")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_graphviz_reads_the_source(program):
    var, params = program()
    assert make_dot(var, params, show_attrs=True, show_saved=True).pipe("plain").startswith(b"graph")


def test_a_notebook_shows_the_picture():
    bundle = make_dot(*formula())._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "4 boxes" in bundle["text/plain"]


def test_what_has_no_graph_is_refused():
    with pytest.raises(backsight.tape.NothingToCapture):
        make_dot(torch.ones(2))
    with pytest.raises(TypeError, match=r"params\['x'\] is of type list"):
        make_dot(torch.ones(2, requires_grad=True).exp(), params={"x": [1]})

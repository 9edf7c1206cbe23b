"""`graph.draw` and its kin: the suffix says the format, bad input is refused, and the ground floor imports nothing."""

import pickle
import sys

import fresh
import pytest
import torch
from graphs import chain, transformer

import backsight
from backsight.drawing import Drawing, Heat, Pin, draw
from backsight.tape import NothingToCapture

BEGINNINGS = {
    "x.svg": b"<svg",
    "x.html": b"<!doctype html>",
    "x.dot": b"digraph",
    "x.mmd": b"flowchart",
    "x.json": b'{"format":"backsight.scene"',
    "x.explorer.json": b'{"label"',
    "x.graphml": b"<?xml",
    "X.SVG": b"<svg",
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_suffix_says_which_format_is_written(name, tmp_path):
    drawing = transformer().draw(tmp_path / name)
    assert isinstance(drawing, Drawing)
    assert (tmp_path / name).read_bytes().startswith(BEGINNINGS[name])


@pytest.mark.parametrize("name", ["x.pdf", "x", ".svg", "x.jsonl"])
def test_an_unknown_suffix_is_refused_with_those_that_are_known(name, tmp_path):
    with pytest.raises(ValueError, match=r"\.svg, \.html, \.png"):
        chain(3).draw(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        chain(3).draw(tmp_path / "nowhere" / "x.svg")


def test_what_a_picture_does_not_have_is_refused():
    with pytest.raises(TypeError, match="colour"):
        chain(3).draw(colour="red")


def test_the_short_forms_say_the_same():
    graph = transformer()
    drawing = graph.draw(max_boxes=10)
    assert graph.to_svg(max_boxes=10) == drawing.svg()
    assert graph.to_html(max_boxes=10) == drawing.html()
    assert graph.to_dot(max_boxes=10) == drawing.dot()
    assert graph.to_json(max_boxes=10) == drawing.json()
    assert graph.to_svg() in graph._repr_html_()
    assert repr(drawing) == "<Drawing of loss: 10 boxes>"


def test_a_graph_that_was_pickled_is_drawn_alike():
    graph = transformer()
    assert pickle.loads(pickle.dumps(graph)).to_svg() == graph.to_svg()


def test_a_graph_without_details_is_drawn_by_its_structure():
    x = torch.ones(3, requires_grad=True)
    graph = backsight.graph(x.exp().sum(), names=False, details=False)
    assert {b.op for b in graph.draw().scene.boxes} == {"Exp", "Sum"}
    assert "<svg" in graph.to_svg()


def test_a_freed_graph_is_drawn():
    x = torch.ones(3, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    assert "freed" in backsight.graph(loss).to_svg()


def leaf():
    return backsight.graph(torch.ones(2, requires_grad=True))


def several_roots():
    x = torch.ones(2, requires_grad=True)
    return backsight.graph(x.exp().sum(), x, [x * 2, {"also": x.sin()}])


def freed():
    loss = torch.ones(3, requires_grad=True).exp().sum()
    loss.backward()
    return backsight.graph(loss)


def without_details():
    return backsight.graph(torch.ones(3, requires_grad=True).exp().sum(), names=False, details=False)


def module_used_twice():
    layer = torch.nn.Linear(2, 2)
    with backsight.watch():
        return backsight.graph(layer(layer(torch.ones(1, 2))).sum(), model=layer)


def nameless():
    return backsight.graph(torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum(), names=False)


@pytest.mark.parametrize("graph", [leaf, several_roots, freed, without_details, module_used_twice, nameless])
@pytest.mark.parametrize("name", BEGINNINGS)
def test_odd_graphs_are_written_in_every_format(graph, name, tmp_path):
    drawing = graph().draw(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(BEGINNINGS[name])
    assert list(drawing.scene.shown)


def test_a_module_that_contains_itself_is_drawn():
    model = torch.nn.Linear(2, 2)
    model.itself = model
    assert "Addmm" in backsight.graph(model(torch.ones(1, 2)).sum(), model=model).to_svg()


def test_a_picture_keeps_nothing_alive():
    import weakref

    x = torch.ones(3, requires_grad=True)
    dead = weakref.ref(x)
    drawing = backsight.graph(x.exp().sum()).draw()
    drawing.svg()
    del x
    assert dead() is None


def test_everything_at_once():
    graph = transformer(optimizer=torch.optim.SGD)
    heat = Heat("norm", dict.fromkeys(graph.nodes, 1.0), "m")
    drawing = draw(
        graph, title="all", path=("loss", 5), shared=graph, pins=[Pin(3, "here")], heat=heat, views=True, depth=2
    )
    assert "in both graphs" in drawing.svg()
    assert drawing.html()


def test_drawing_is_imported_when_a_picture_is_asked_for_and_not_before():
    program = """if True:
        import sys, torch, backsight
        graph = backsight.graph(torch.ones(2, requires_grad=True).exp().sum())
        print(graph.saved_bytes, "backsight.drawing" in sys.modules)
        graph.draw()
        print("backsight.drawing" in sys.modules, "networkx" in sys.modules)
    """
    out = fresh.run([sys.executable, "-c", program], check=True).stdout
    assert out.split() == ["8", "False", "True", "False"]


def test_a_path_that_cannot_be_written_is_an_ordinary_error(tmp_path):
    (tmp_path / "x.svg").mkdir()
    with pytest.raises(IsADirectoryError):
        chain(3).draw(tmp_path / "x.svg")


@pytest.mark.parametrize("roots", [(), (torch.ones(2),), ([],)])
def test_where_there_is_no_graph_there_is_none_to_draw(roots):
    with pytest.raises(NothingToCapture):
        backsight.graph(*roots).draw()

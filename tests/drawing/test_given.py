"""What needs no gradient: frozen parameters are marked, inputs are shown if asked for; and classes of modules."""

import json

import torch
from torch import nn

from backsight.drawing import Drawing, Look
from backsight.snapshot import graph
from backsight.tape.document import document, graph_of
from backsight.tracing import watch


class Half(nn.Module):
    """A frozen layer between two that learn."""

    def __init__(self):
        super().__init__()
        self.first, self.frozen, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.last(self.frozen(self.first(x)).tanh())


def drawn(**look):
    half = Half()
    captured = graph(half(torch.ones(3, 4)).sum(), model=half)
    return Drawing(captured, Look(**look)), captured


def chips(drawing, name):
    (box,) = (box for box in drawing.scene.boxes if box.name == name)
    return [(chip.status, chip.text) for chip in box.chips]


class TestFrozenParameters:
    def test_they_are_marked_beside_the_operation_that_reads_them(self):
        drawing, _ = drawn()
        assert chips(drawing, "half.frozen") == [("frozen", "weight")]
        assert "frozen: no longer requires grad" in drawing.svg()

    def test_what_learns_is_not(self):
        drawing, _ = drawn()
        assert {status for status, _ in chips(drawing, "half.first")} <= {"unknown", "trained", "untrained"}

    def test_a_document_of_the_graph_keeps_them(self):
        drawing, captured = drawn()
        again = Drawing(graph_of(json.loads(json.dumps(document(captured)))), Look())
        assert [box.chips for box in again.scene.boxes] == [box.chips for box in drawing.scene.boxes]


class TestInputs:
    def test_they_are_shown_if_asked_for(self):
        assert ("given", "mat1 3×4") in chips(drawn(inputs=True)[0], "half.first")

    def test_and_else_not(self):
        assert all(status != "given" for status, _ in chips(drawn()[0], "half.first"))

    def test_what_an_operation_made_itself_is_no_input(self):
        x = torch.ones(3, requires_grad=True)
        boxes = Drawing(graph(x.exp().sum(), names=False), Look(inputs=True)).scene.boxes
        assert all(chip.status != "given" for box in boxes for chip in box.chips)


class TestClasses:
    def test_a_box_says_the_class_of_its_module_before_the_operation(self):
        drawing, _ = drawn()
        (first,) = (box for box in drawing.scene.boxes if box.name == "half.first")
        assert (first.cls, first.op) == ("Linear", "Addmm")
        assert ">Linear</text>" in drawing.svg() and ">Addmm</text>" not in drawing.svg()

    def test_the_model_is_named_above_the_picture_and_in_what_a_box_tells(self):
        half = Half()
        drawing = Drawing(graph(half(torch.ones(3, 4)).sum()), Look())
        assert drawing.scene.summary.startswith("half: Half · ")
        told = "\n".join(drawing.tell(box) for box in drawing.scene.boxes)
        assert "half.first: Linear" in told

    def test_frames_of_inferred_modules_are_dashed(self):
        inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
        outer = nn.Sequential(inner, nn.Linear(2, 1))
        svg = Drawing(graph(outer(torch.ones(1, 2)), model=outer), Look(depth=-1)).svg("light")
        assert 'class="f inferred"' in svg


class Quantized(nn.Module):
    """A straight-through estimator, and a distance to what is detached."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        z = self.encoder(x)
        quantized = z + (torch.round(z) - z).detach()
        target = z.detach()
        return self.decoder(quantized).sum() + ((quantized - target) ** 2).mean()


class TestDetached:
    def seen(self, level="exact"):
        model = Quantized()
        with watch(level=level):
            return graph(model(torch.ones(3, 4)), model=model)

    def cuts(self, captured, **look):
        boxes = Drawing(captured, Look(**look)).scene.boxes
        return [(box.op, chip.text, chip.names[0]) for box in boxes for chip in box.chips if chip.status == "cut"]

    def test_what_a_watch_saw_detached_is_beside_the_operation_that_takes_it(self):
        found = self.cuts(self.seen())
        assert [(op, text) for op, text, _ in found] == [("Add", "✂ torch.round(z) - z"), ("Sub", "✂ z")]
        line = Quantized.forward.__code__.co_firstlineno + 3
        assert found[1][2] == f"z detached at {__file__}:{line}"
        assert "detached: no gradient flows into it" in Drawing(self.seen(), Look()).svg()

    def test_a_watch_of_lines_does_not_see_it(self):
        assert self.cuts(self.seen("lines")) == []

    def test_nothing_is_said_of_a_graph_that_nobody_watched(self):
        model = Quantized()
        assert self.cuts(graph(model(torch.ones(3, 4)), model=model)) == []

    def test_a_document_of_the_graph_keeps_it(self):
        captured = self.seen()
        assert self.cuts(graph_of(json.loads(json.dumps(document(captured))))) == self.cuts(captured)

    def test_a_closed_module_says_how_many_there_are(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Quantized()

            def forward(self, x):
                return self.inner(x) * 2

        model = Two()
        with watch(level="exact"):
            captured = graph(model(torch.ones(3, 4)), model=model)
        assert ("", "✂ 2 detached") in [(op, text) for op, text, _ in self.cuts(captured, max_boxes=2)]

    def test_each_layer_of_a_loop_has_it(self):
        layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        with watch(level="exact"):
            x = torch.ones(2, 4, requires_grad=True)
            for layer in layers:
                x = x + layer(x.detach())
            captured = graph(x.sum(), model=layers)
        assert [text for _, text, _ in self.cuts(captured, fold=False, depth=-1)] == ["✂ x"] * 3

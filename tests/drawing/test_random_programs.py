"""Whole pictures of random programs: modules in modules, loops, branches, shared layers."""

from itertools import combinations, pairwise
from xml.etree import ElementTree

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import examples
from torch import nn

import backsight
from backsight.drawing import Look, staged, svg
from backsight.drawing.card import card
from backsight.drawing.layout import laid_out
from backsight.tape.rows import visible

OPERATIONS = (torch.sin, torch.tanh, torch.exp, lambda x: x * 2, lambda x: x + x.cos(), lambda x: x.t().sin().t())
steps = st.recursive(
    st.one_of(
        st.tuples(st.just("op"), st.integers(0, len(OPERATIONS) - 1)),
        st.tuples(st.just("layer"), st.integers(0, 2)),
        st.just(("join", 0)),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("module"), st.lists(inner, min_size=1, max_size=4)),
        st.tuples(st.just("loop"), st.tuples(st.integers(2, 6), st.lists(inner, min_size=1, max_size=4))),
        st.tuples(st.just("residual"), st.lists(inner, min_size=1, max_size=4)),
    ),
    max_leaves=12,
)
programs = st.lists(steps, min_size=1, max_size=6)
looks = st.fixed_dictionaries(
    {
        "max_boxes": st.integers(1, 60),
        "views": st.booleans(),
        "fold": st.booleans(),
        "depth": st.sampled_from([None, 2, -1]),
    }
)


class Program(nn.Module):
    """Runs steps; inner modules are its children, layers are shared by all."""

    def __init__(self, body, layers):
        super().__init__()
        self.body, self.layers = body, layers
        self.inner = nn.ModuleList([Program(what, layers) for kind, what in body if kind == "module"])

    def forward(self, x):
        return self._run(self.body, x, x, iter(self.inner))

    def _run(self, body, x, first, inner):
        for kind, what in body:
            if kind == "op":
                x = OPERATIONS[what](x)
            elif kind == "layer":
                x = self.layers[what](x)
            elif kind == "join":
                x = x + first
            elif kind == "module":
                x = next(inner, nn.Identity())(x)
            elif kind == "residual":
                x = x + self._run(what, x, x, iter(()))
            else:
                times, repeated = what
                for _ in range(times):
                    x = self._run(repeated, x, x, iter(()))
        return x


def graph_of(program, watched):
    layers = nn.ModuleList([nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 3, bias=False)])
    model, x = Program(program, layers), torch.randn(3, 3, requires_grad=True)
    if not watched:
        return backsight.graph(model(x).sum(), model=model, names=False)
    with backsight.watch():
        return backsight.graph(model(x).sum(), model=model, names=False)


@given(programs, st.booleans(), looks)
@settings(max_examples=examples(60), deadline=None)
def test_every_operation_is_in_the_picture_as_often_as_it_ran(program, watched, look):
    graph = graph_of(program, watched)
    scene = staged(graph, Look(**look))
    operations = [b for b in scene.boxes if not b.is_group]
    assert sum(b.copies for b in operations) == len(visible(graph, views=look["views"]))
    assert sum(b.saved * b.copies for b in operations) == graph.saved_bytes
    assert all(a < b for a, b in scene.links)
    assert len({b.index for b in operations} - {a for a, _ in scene.links}) == 1, "all but the root lead on"


@given(programs, st.booleans(), looks)
@settings(max_examples=examples(60), deadline=None)
def test_boxes_stand_in_their_frames_apart_and_no_line_crosses_one(program, watched, look):
    scene = staged(graph_of(program, watched), Look(**look))
    page = laid_out(scene, lambda b: (card(b).width, card(b).height), lambda b: 80.0)
    shown = set(scene.shown)
    edges = {i: (f.x, f.y, f.x + f.width, f.y + f.height) for i, f in page.frames.items()}
    for i, (left, top, right, bottom) in edges.items():
        parent = scene.boxes[i].parent
        outer = edges[parent] if parent is not None else (0, 0, page.width, page.height)
        assert (
            outer[0] <= left + 1e-6
            and outer[1] <= top + 1e-6
            and right <= outer[2] + 1e-6
            and bottom <= outer[3] + 1e-6
        )
    for a, b in combinations(sorted(shown), 2):
        (l1, t1, r1, b1), (l2, t2, r2, b2) = edges[a], edges[b]
        assert r1 <= l2 + 1e-6 or r2 <= l1 + 1e-6 or b1 <= t2 + 1e-6 or b2 <= t1 + 1e-6
    for line in page.lines:
        ends = {end for link in line.links for end in link}
        for (x0, y0), (x1, y1) in pairwise(line.points):
            for i in shown - ends:
                left, top, right, bottom = edges[i]
                beside = max(x0, x1) <= left + 1e-6 or min(x0, x1) >= right - 1e-6
                assert beside or y1 <= top + 1e-6 or y0 >= bottom - 1e-6


@given(programs, st.booleans(), looks)
@settings(max_examples=examples(30), deadline=None)
def test_every_picture_is_well_formed_and_the_same_again(program, watched, look):
    graph = graph_of(program, watched)
    text = svg(staged(graph, Look(**look)))
    ElementTree.fromstring(text)
    assert text == svg(staged(graph, Look(**look)))

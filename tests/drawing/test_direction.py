"""From left to right: a picture turned over the diagonal, chosen where a page would be too narrow for it."""

from itertools import combinations, pairwise

import pytest
import torch
from graphs import transformer
from torch import nn

from backsight.drawing import Drawing, Look
from backsight.drawing.layout import laid_out
from backsight.snapshot import graph


class Experts(nn.Module):
    """Ten branches side by side, of different widths, so that none stands for the others."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(80, 2)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8 + k), nn.ReLU(), nn.Linear(8 + k, 8)) for k in range(10)
        )

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.cat([expert(x) for expert in self.experts], 1))


def experts(**look):
    model = Experts()
    return Drawing(graph(model(torch.ones(3, 8)).sum(), model=model), Look(**{"max_boxes": 60, **look}))


def page(drawing):
    return laid_out(drawing.scene, lambda box: (90.0 + len(box.op), 42.0), lambda box: 140.0, sideways=True)


DRAWINGS = {
    "experts": experts,
    "experts, in few boxes": lambda: experts(max_boxes=12),
    "transformer": lambda: transformer(optimizer=None).draw(),
    "transformer, whole": lambda: transformer().draw(depth=-1),
}


@pytest.fixture(params=DRAWINGS, scope="module")
def drawing(request):
    return DRAWINGS[request.param]()


def test_what_is_too_wide_from_top_to_bottom_runs_from_left_to_right():
    assert "Computation runs from left to right." in experts().svg()
    assert "Computation runs from top to bottom." in experts(direction="down").svg()


def test_what_fits_a_page_runs_from_top_to_bottom_unless_asked():
    assert "Computation runs from top to bottom." in transformer().draw().svg()
    assert "Computation runs from left to right." in transformer().draw(direction="right").svg()


def test_there_are_no_other_directions():
    with pytest.raises(ValueError, match='direction is "auto", "down" or "right", not \'up\''):
        Look(direction="up")


def test_boxes_do_not_overlap_and_are_within_the_frame_around_them(drawing):
    frames, boxes = page(drawing).frames, drawing.scene.boxes
    for a, b in combinations(frames, 2):
        one, two = frames[a], frames[b]
        if boxes[a].parent == boxes[b].parent:
            beside = one.x + one.width <= two.x + 1e-6 or two.x + two.width <= one.x + 1e-6
            assert beside or one.y + one.height <= two.y + 1e-6 or two.y + two.height <= one.y + 1e-6
    for index, frame in frames.items():
        around = frames.get(boxes[index].parent)
        if around is not None:
            assert around.x <= frame.x and frame.x + frame.width <= around.x + around.width + 1e-6
            assert around.y + 24 <= frame.y and frame.y + frame.height <= around.y + around.height + 1e-6


def test_every_line_leads_right_and_ends_at_the_left_edge_of_a_box(drawing):
    drawn = page(drawing)
    edges = {
        (round(frame.x, 3), round(frame.y, 3), round(frame.y + frame.height, 3)) for frame in drawn.frames.values()
    }
    assert drawn.lines
    for line in drawn.lines:
        assert all(before[0] <= after[0] + 1e-6 for before, after in pairwise(line.points))
        x, y = line.points[-1]
        if line.arrow:
            assert any(left == round(x, 3) and top <= y <= bottom for left, top, bottom in edges)
        assert 0 <= x <= drawn.width and 0 <= y <= drawn.height

"""Layered drawings: boxes apart from each other, wires that lead down and cross no box, the same every time."""

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.drawing.layout import Wire, layered
from backsight.drawing.layout.columns import Joint
from backsight.drawing.layout.layered import LONGEST
from backsight.drawing.layout.ordering import crossings
from backsight.drawing.layout.ranks import ranks


@st.composite
def frames(draw):
    """The contents of a frame: boxes of any size, wires that lead forward, and ports at its edges."""
    inner = draw(st.integers(1, 24))
    sizes = [(draw(st.integers(20, 300)), draw(st.integers(20, 200))) for _ in range(inner)]
    pairs = draw(st.sets(st.tuples(st.integers(0, inner - 1), st.integers(0, inner - 1)), max_size=3 * inner))
    spread = [draw(st.booleans()) for _ in sizes]
    offsets = st.floats(-0.4, 0.4)
    wires = [
        Wire(a, b, sizes[a][0] * draw(offsets), 0.0 if spread[b] else sizes[b][0] * draw(offsets))
        for a, b in sorted(pairs)
        if a < b
    ]
    entries = range(inner, inner + draw(st.integers(0, 3)))
    exits = range(entries.stop, entries.stop + draw(st.integers(0, 3)))
    wires += [Wire(port, draw(st.integers(0, inner - 1))) for port in entries]
    wires += [Wire(draw(st.integers(0, inner - 1)), port) for port in exits]
    ports = [(8.0, 0.0)] * (len(entries) + len(exits))
    return sizes + ports, wires, entries, exits, spread + [False] * len(ports)


def box(sizes, drawn, v):
    (x, y), (width, height) = drawn.middles[v], sizes[v]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


@given(frames())
def test_boxes_do_not_overlap(frame):
    sizes, *rest = frame
    drawn = layered(sizes, *rest)
    boxes = [box(sizes, drawn, v) for v in range(len(sizes))]
    for a, b in combinations(boxes, 2):
        beside = a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6
        assert beside or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6


@given(frames())
def test_every_wire_leads_down_from_its_producer_to_its_consumer(frame):
    sizes, wires, *rest = frame
    drawn = layered(sizes, wires, *rest)
    for wire, points in zip(wires, drawn.wires, strict=True):
        assert all(above[1] <= below[1] + 1e-6 for above, below in pairwise(points))
        assert abs(points[0][1] - box(sizes, drawn, wire.a)[3]) < 1e-6
        assert abs(points[-1][1] - box(sizes, drawn, wire.b)[1]) < 1e-6
        for v, (x, _) in ((wire.a, points[0]), (wire.b, points[-1])):
            left, _, right, _ = box(sizes, drawn, v)
            assert left - 1e-6 <= x <= right + sizes[v][0] * 0.35 + 1e-6


@given(frames())
def test_no_wire_crosses_a_box(frame):
    sizes, wires, *rest = frame
    drawn = layered(sizes, wires, *rest)
    boxes = [box(sizes, drawn, v) for v in range(len(sizes))]
    for wire, points in zip(wires, drawn.wires, strict=True):
        for (x0, y0), (x1, y1) in pairwise(points):
            for v, (left, top, right, bottom) in enumerate(boxes):
                beside = max(x0, x1) <= left + 1e-6 or min(x0, x1) >= right - 1e-6
                assert beside or y1 <= top + 1e-6 or y0 >= bottom - 1e-6 or v in (wire.a, wire.b)


@given(frames())
def test_everything_is_within_the_drawing(frame):
    sizes, *rest = frame
    drawn = layered(sizes, *rest)
    points = [point for wire in drawn.wires for point in wire]
    points += [(x, y) for v in range(len(sizes)) for x, y in (box(sizes, drawn, v)[:2], box(sizes, drawn, v)[2:])]
    assert all(-1e-6 <= x <= drawn.width + 1e-6 and -1e-6 <= y <= drawn.height + 1e-6 for x, y in points)


@given(frames())
@settings(max_examples=20)
def test_the_same_frame_is_always_drawn_alike(frame):
    assert layered(*frame) == layered(*frame)


def test_a_chain_runs_straight_down():
    drawn = layered([(60 + 7 * (k % 3), 30) for k in range(20)], [Wire(k, k + 1) for k in range(19)])
    assert len({x for x, _ in drawn.middles}) == 1
    assert all(len(wire) == 2 for wire in drawn.wires)


def test_a_trunk_runs_straight_beside_the_branch_around_it():
    wires = [Wire(0, 1), Wire(1, 2), Wire(2, 3), Wire(0, 3)]
    drawn = layered([(80, 30)] * 4, wires)
    assert len({round(x, 6) for x, _ in drawn.middles}) == 1
    assert max(abs(x - drawn.middles[0][0]) for x, _ in drawn.wires[3]) > 40


def test_a_deep_chain_is_laid_out_without_recursion():
    n = 5000
    drawn = layered([(60, 30)] * n, [Wire(k, k + 1) for k in range(n - 1)])
    assert [y for _, y in drawn.middles] == sorted(y for _, y in drawn.middles)


def test_a_wire_past_many_ranks_runs_in_a_lane_at_the_side():
    n = LONGEST + 4
    drawn = layered([(60, 30)] * n, [*(Wire(k, k + 1) for k in range(n - 1)), Wire(0, n - 1)])
    assert max(x for x, _ in drawn.wires[-1]) > max(x for x, _ in drawn.middles) + 30
    assert len(drawn.wires[-1]) == 6, "down, over, down along everything, back, and down"


def test_a_branch_made_of_leaves_alone_stands_beside_what_it_joins():
    assert ranks(5, [(0, 1), (1, 2), (2, 4), (3, 4)], (), ()) == [0, 1, 2, 2, 3]


def test_branches_of_one_trunk_begin_side_by_side():
    assert ranks(6, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 5), (4, 5)], (), ()) == [0, 1, 1, 1, 2, 3]


def joined(below):
    return [[Joint(v, 0.0, 1.0) for v in boxes] for boxes in below]


def test_crossings_are_counted():
    assert crossings([[0, 1], [2, 3]], joined([[3], [2], [], []])) == 1
    assert crossings([[0, 1], [2, 3]], joined([[2], [3], [], []])) == 0
    assert crossings([[0, 1], [2, 3]], joined([[2, 3], [2, 3], [], []])) == 1


def test_nothing_is_laid_out_as_nothing():
    assert layered([], []).middles == ()

"""The folded picture as data: what is shown, what is folded, what is open, what is marked."""

from itertools import pairwise

import pytest
import torch
from graphs import Twice, chain, sampler, shown, tangle, transformer
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight
from backsight.drawing import Box, Heat, Look, Pin, Scene, staged
from backsight.drawing.look import MOST_BOXES
from backsight.drawing.opening import opened


def scene(graph, **look):
    return staged(graph, Look(**look))


def box(picture, name):
    (found,) = [b for b in picture.boxes if name in (b.name, b.op)]
    return found


def test_a_transformer_is_shown_by_module_with_its_blocks_folded_and_the_residuals_beside_them():
    assert (
        shown(scene(transformer(), max_boxes=20))
        == """\
model.embed Embedding
▾ model.h.0…3 ×4
  norm1 NativeLayerNorm
  ▾ attn
    mix Addmm
    Split
    Softmax
    Mul
    out Addmm
  Add
  norm2 NativeLayerNorm
  ▾ mlp
    0 Addmm
    1 Gelu
    2 Addmm
  Add
model.head Addmm
LogSoftmax
NllLoss"""
    )


def test_a_residual_is_a_link_around_the_layer():
    picture = scene(transformer(), max_boxes=10)
    block = {b.name or b.op: b.index for b in picture.boxes if b.parent == box(picture, "model.h.0…3").index and b.name}
    adds = [b.index for b in picture.boxes if b.op == "Add"]
    assert (block["attn"], adds[0]) in picture.shown_links
    assert (box(picture, "model.embed").index, adds[0]) in picture.shown_links, "past the attention"
    assert (adds[0], adds[1]) in picture.shown_links, "past the mlp"


def test_the_first_copy_is_fed_from_before_and_the_last_one_feeds_what_follows():
    picture = scene(transformer(), max_boxes=4)
    names = {(picture.boxes[a].name, picture.boxes[b].name) for a, b in picture.shown_links}
    assert {("model.embed", "model.h.0…3"), ("model.h.0…3", "model.head")} <= names


def test_an_unrolled_loop_of_modules_without_a_name_of_its_own_is_found():
    picture = scene(sampler(), max_boxes=20)
    assert len(list(picture.shown)) <= 20
    assert 48 <= max(b.times for b in picture.boxes) <= 50


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_folds_to_a_handful_of_boxes():
    picture = scene(chain(100_000))
    assert len(picture.boxes) <= 6
    assert max(b.times for b in picture.boxes) * 2 + 4 >= 100_000


def test_without_folding_everything_is_there():
    graph = transformer()
    assert "×" not in shown(scene(graph, fold=False, depth=-1))
    folded, whole = scene(graph), scene(graph, fold=False)
    assert sum(b.copies for b in folded.boxes if not b.is_group) == sum(not b.is_group for b in whole.boxes)


def test_blocks_of_which_one_is_not_trained_are_not_one_picture():
    graph = transformer(optimizer=torch.optim.SGD, trained=lambda name: not name.startswith("h.1."))
    blocks = [b for b in scene(graph).boxes if b.is_group and b.path in ("h.0", "h.1", "h.2")]
    assert [b.name for b in blocks] == ["0", "1", "2…3"]
    assert [chip.status for b in blocks for chip in b.chips] == ["trained", "untrained", "trained"]


def test_a_loop_over_a_cell_is_cut_where_its_body_begins():
    cell, state = nn.LSTMCell(4, 8), None
    for step in torch.randn(6, 2, 4):
        state = cell(step, state)
    lines = shown(scene(backsight.graph(state[0].sum()), max_boxes=40)).split("\n")
    at = lines.index("▾ repeated ×5")
    assert lines[at + 1 :] == [f"  {op}" for op in CELL] + ["Sum"]
    assert lines[:at] == CELL


GATES = ["Sigmoid", "Sigmoid", "Tanh", "Sigmoid"]
CELL = ["Addmm", "Addmm", "Add", "UnsafeSplit", *GATES, "Mul", "Mul", "Add", "Tanh", "Mul"]


def test_modules_that_take_turns_say_from_where_to_where_and_each_too():
    plain = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)]
    other = [nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3)]
    layers = nn.ModuleList([layer for pair in zip(plain, other, strict=True) for layer in pair])
    x = torch.ones(2, 4, requires_grad=True) * 2
    with backsight.watch():
        for layer in layers:
            x = x + layer(x)
        graph = backsight.graph(x.sum(), model={"layers": layers, "other": nn.Linear(1, 1)})
    folded = [line for line in shown(scene(graph)).split("\n") if "…" in line]
    assert folded == ["▾ layers.0…5 ×3", "  ▾ layers.0…4", "  ▾ layers.1…5"]


def test_a_root_that_is_the_last_of_many_copies_is_still_named():
    loss = torch.ones(3, requires_grad=True)
    for _ in range(30):
        loss = loss * 1.5
    assert [b.root for b in scene(backsight.graph(loss)).boxes] == ["", "loss"]


def test_two_calls_of_one_module_on_different_inputs_stand_side_by_side():
    model = Twice()
    with backsight.watch():
        loss = model(torch.randn(2, 4), torch.randn(2, 4))
        graph = backsight.graph(loss, model=model)
    assert shown(scene(graph, max_boxes=5)) == "▸ model.encoder · call 1\n▸ model.encoder · call 2\nSub\nPow\nSum"


def test_calls_that_nobody_has_seen_are_numbered_where_each_uses_the_same_parameters():
    model = nn.ModuleDict({"a": nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), "b": nn.Linear(4, 4)})
    loss = sum(model["b"](model["a"](torch.ones(rows, 4))).exp().sum() for rows in (2, 3))
    picture = scene(backsight.graph(loss, model=model), depth=0)
    names = [box.name for box in picture.boxes if box.parent is None and box.name]
    assert names == [f"model.{name} · call {call}" for call in (1, 2) for name in "ab"]
    assert [box.name for box in picture.boxes if box.parent == 0] == ["0", "1", "2"], "that of the group says it"


def test_stretches_of_one_call_are_not_numbered():
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    model = Split()
    loss = model.two(model.one(torch.ones(2, 4)).exp()).sum()
    assert not [b.name for b in scene(backsight.graph(loss, model=model)).boxes if "call" in b.name]


def test_a_budget_is_kept_and_more_of_it_shows_more():
    graph = transformer()
    counts = [len(list(scene(graph, max_boxes=n).shown)) for n in (5, 8, 16, 30)]
    assert counts == sorted(counts)
    assert all(count <= most for count, most in zip(counts, (5, 8, 16, 30), strict=True))


def test_where_next_to_nothing_would_be_seen_up_to_twice_the_budget_is_shown():
    def opened_of(inner, budget):
        group = Box(0, None, "module", "net", "", "", 0, count=inner)
        boxes = (group, *(Box(k, 0, "op", "", "Mul", "3", k) for k in range(1, inner + 1)))
        return opened(Scene("", "", boxes, (), ("", ())), Look(max_boxes=budget)).boxes[0].opened

    assert opened_of(10, 10)
    assert opened_of(20, 10), "one closed box says less than 20 open ones are too many"
    assert not opened_of(21, 10)


def test_what_does_not_repeat_is_cut_into_parts_and_never_shown_flat():
    picture = scene(tangle(2000))
    assert len(list(picture.shown)) <= 60
    assert max(len([b for b in picture.boxes if b.parent == g.index]) for g in picture.boxes if g.is_group) <= 60
    assert len(list(scene(tangle(2000), depth=-1).shown)) <= MOST_BOXES


def test_links_lead_forward_at_every_depth():
    for graph in (transformer(), tangle(300), sampler(5)):
        picture = scene(graph)
        assert all(a < b for a, b in picture.links)
        assert all(a < b for a, b in picture.shown_links)


def test_depth_and_open_go_beyond_the_budget():
    graph = transformer()
    assert all(b.opened for b in scene(graph, max_boxes=1, depth=-1).boxes if b.is_group)
    opened = {b.path for b in scene(graph, max_boxes=1, open=["h.0.mlp"]).boxes if b.opened}
    assert opened == {"h.0", "h.0.mlp"}, "and what is around it"
    assert not any(b.opened for b in scene(graph, depth=0).boxes)


def test_saved_bytes_of_all_copies_are_those_of_the_graph():
    for graph in (transformer(), sampler(), tangle(200)):
        boxes = scene(graph, views=True).boxes
        assert sum(b.saved * b.copies for b in boxes if not b.is_group) == graph.saved_bytes
        top = [b for b in boxes if b.parent is None]
        assert sum(b.saved * b.copies for b in top) == graph.saved_bytes


def test_heat_is_the_share_of_all_saved_bytes():
    x = torch.randn(1000, requires_grad=True)
    picture = scene(backsight.graph((x.sin().sum() * 2).exp()))
    assert box(picture, "Sin").heat == 0, "its operand is the leaf itself"
    picture = scene(backsight.graph(((x * 2).sin().sum() * 2).exp()))
    assert box(picture, "Sin").heat == 4
    assert box(picture, "Exp").heat == 1


def test_heat_can_be_any_number_by_place():
    x = torch.ones(3, requires_grad=True)
    graph = backsight.graph((x.sin() * 2).sum())
    norms = {0: 1.0, 1: 0.2, 2: 0.01}
    picture = scene(graph, heat=Heat("gradient norm", norms))
    assert [b.heat for b in picture.boxes] == [1, 3, 4]
    assert [b.amount for b in picture.boxes] == ["0.01", "0.2", "1"]
    assert picture.scale[0] == "gradient norm"


def test_a_folded_box_shows_the_largest_value_of_its_copies():
    graph = chain(40)
    values = {node: float(node.index) for node in graph.nodes if node.op == "Sin"}
    amounts = [float(b.amount.removeprefix("≤ ")) for b in scene(graph, heat=Heat("n", values)).boxes if b.amount]
    assert max(amounts) == max(values.values())


def test_every_way_between_two_places_is_highlighted():
    delta = torch.zeros(4, requires_grad=True)
    weight = torch.ones(4, requires_grad=True)
    loss = (delta.sin() * weight.cos()).sum() + weight.abs().sum()
    picture = scene(backsight.graph(loss), path=("delta", "loss"))
    assert {b.op for b in picture.boxes if b.hot} == {"Sin", "Mul", "Sum", "Add"}
    assert [chip.text for b in picture.boxes for chip in b.chips if chip.hot] == ["delta"]
    assert not box(picture, "Abs").hot


def test_a_given_path_is_highlighted_as_it_is():
    graph = transformer()
    path = graph.path("loss", "model.embed.weight" if graph.leaves[0].name.startswith("model") else graph.leaves[-1])
    hot = [b for b in scene(graph, path=path, fold=False, depth=-1, views=True).boxes if b.hot and not b.is_group]
    assert len(hot) == sum(node.kind != "leaf" for node in path)
    assert all(a.index < b.index for a, b in pairwise(hot))


def test_a_path_through_some_copies_only_unfolds_them():
    graph = chain(60)
    half = graph.between(graph.nodes[0], graph.nodes[30])
    picture = scene(graph, path=half)
    assert sum(b.copies for b in picture.boxes if b.hot and not b.is_group) == len(half)


def test_what_two_graphs_share_is_marked():
    x = torch.ones(3, requires_grad=True)
    common = x.sin()
    first, second = backsight.graph(common.sum()), backsight.graph(common.exp().sum())
    assert [b.op for b in scene(second, shared=first).boxes if b.shared] == ["Sin"]


def test_freed_and_modified_operations_say_so():
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).sigmoid()
    y.sum().backward()
    assert box(scene(backsight.graph(y)), "Sigmoid").state == "freed"
    z = (x * 2).sigmoid()
    loss = (z * 3).sum()
    z.add_(1)
    assert box(scene(backsight.graph(loss)), "Sigmoid").state == "result modified v1≠v0"


def test_what_a_checkpoint_keeps_is_no_alarm():
    layer, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.ones(2, 3)
    picture = scene(backsight.graph(checkpoint(layer, x, use_reentrant=False).sum()))
    assert {b.op: (b.state, b.verdict) for b in picture.boxes if b.state} == {
        "Addmm": ("hooked", "hooked"),
        "Tanh": ("hooked", "hooked"),
    }


def test_a_remark_is_pinned_to_its_place_or_to_what_consumes_it():
    weight = torch.ones(3, 3, requires_grad=True)
    graph = backsight.graph(weight.t().exp().sum())
    picture = scene(graph, pins=[Pin("weight", "belongs to no optimizer"), Pin("TBackward0", "a view"), Pin(0, "root")])
    assert box(picture, "Exp").pins == (1, 2)
    assert box(picture, "Sum").pins == (3,)
    assert [remark.text for remark in picture.remarks] == ["belongs to no optimizer", "a view", "root"]


def test_a_remark_may_have_several_places():
    weight, bias = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    picture = scene(backsight.graph((weight.exp() + bias).sum()), pins=[Pin(["weight", "bias"], "in no optimizer")])
    assert {b.op: b.pins for b in picture.boxes} == {"Exp": (1,), "Add": (1,), "Sum": ()}


def test_leaves_say_what_becomes_of_them():
    model = nn.Linear(3, 3)
    free = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    loss = (model(free) * 2).sum()
    model.bias.requires_grad_(False)
    graph = backsight.graph(loss, model=model, optimizer=optimizer)
    statuses = {chip.text: chip.status for b in scene(graph).boxes for chip in b.chips}
    assert statuses == {"model.weight": "trained", "model.bias": "frozen", "free": "untrained"}
    alone = backsight.graph(free.sin())
    assert scene(alone).boxes[0].chips[0].status == "unknown", "no optimizer is known"


def test_neighboring_roots_of_one_operation_have_one_name():
    outs = list(torch.ones(4, requires_grad=True).chunk(2))
    picture = scene(backsight.graph(outs))
    assert (picture.title, [box.root for box in picture.boxes]) == ("outs[0–1]", ["outs[0–1]"])


@pytest.mark.parametrize("roots", [1, 3])
def test_roots_are_named_and_a_root_may_be_a_leaf(roots):
    leaves = [torch.ones(2, requires_grad=True) for _ in range(roots)]
    picture = scene(backsight.graph(*leaves))
    assert [b.kind for b in picture.boxes] == ["leaf"] * roots
    assert all(b.root for b in picture.boxes)


def test_views_are_hidden_and_can_be_shown():
    x = torch.ones(2, 3, requires_grad=True)
    graph = backsight.graph(x.t().exp().unsqueeze(0).sum())
    assert {b.op for b in scene(graph).boxes} == {"Exp", "Sum"}
    assert {b.op for b in scene(graph, views=True).boxes} == {"T", "Exp", "Unsqueeze", "Sum"}


@pytest.mark.parametrize(
    ("look", "error", "said"),
    [
        ({"max_boxes": 0}, ValueError, "at least 1"),
        ({"max_boxes": "many"}, ValueError, "at least 1"),
        ({"heat": "gradients"}, ValueError, "backsight.drawing.Heat"),
        ({"open": "h.0"}, TypeError, "open=['h.0']"),
        ({"path": ("delta",)}, ValueError, "two places"),
        ({"path": ("nobody", "y")}, LookupError, "nobody"),
        ({"pins": [Pin("nobody", "text")]}, LookupError, "nobody"),
        ({"heat": Heat("x", {"nobody": 1.0})}, LookupError, "nobody"),
    ],
)
def test_a_look_that_makes_no_sense_is_refused(look, error, said):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(error, match=said.replace("[", r"\[").replace("]", r"\]")):
        scene(backsight.graph(x.sin()), **look)


def test_modules_that_count_up_say_from_where_to_where():
    convolutions = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(6)))
    graph = backsight.graph(convolutions(torch.ones(2, 4)).sum(), model={"net": convolutions, "x": nn.Linear(1, 1)})
    assert shown(scene(graph)) == "▾ net\n  0 Mm\n  1…5 Mm ×5\nSum", "the first one's input needs no gradient"
    pairs = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.Tanh())))
    with backsight.watch():
        start = torch.ones(2, 4, requires_grad=True).exp()
        graph = backsight.graph(pairs(start).sum(), model={"net": pairs, "x": pairs[1]})
    assert shown(scene(graph)) == "Exp\n▾ net.0…11 ×6\n  0 Addmm\n  1 Tanh\nSum"


def test_every_operation_is_found_in_the_picture_by_its_node():
    graph = transformer()
    picture = scene(graph, max_boxes=5)
    softmax = [node.index for node in graph.nodes if node.op == "Softmax"]
    assert {picture.boxes[picture.at[index]].op for index in softmax} == {"Softmax"}
    assert {picture.boxes[picture.stands_for[picture.at[index]]].name for index in softmax} == {"model.h.0…3"}
    assert graph.leaves[0].node not in picture.at

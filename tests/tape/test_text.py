"""The picture that print(graph) shows, as text."""

import io
import re
import sys
from dataclasses import replace
from textwrap import dedent

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from backsight.tape import capture
from backsight.tape.cells import cells, cut, cut_left, harmless
from backsight.tape.rows import together, visible
from backsight.text import size

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def named(graph, *names, roots=("loss",)):
    leaves = [replace(leaf, name=n, kind="variable") for leaf, n in zip(graph.leaves, names, strict=False)]
    return graph.renamed([*leaves, *graph.leaves[len(leaves) :]], roots)


def shows(graph, expected):
    assert "\n" + graph.text(width=88) == dedent(expected).rstrip()


def linear():
    x, y = torch.randn(100, 3), torch.randn(100, 1)
    w, b = torch.randn(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    return named(capture(((x @ w + b - y) ** 2).mean()), "w", "b")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_the_newcomers_first_graph():
    shows(
        linear(),
        """
        loss · 5 operations, 2 leaves, 1.6 KB saved for backward
           #  op     shape   saved  leaves
        ●  4  Mm     100×1  1.2 KB  ‹w›
        ●  3  Add    100×1          ‹b›
        ●  2  Sub    100×1
        ●  1  Pow    100×1   400 B
        ◉  0  Mean  scalar          ◉ loss
        # is the index in g.nodes · ‹leaf› · saved: kept for backward, counted once
        """,
    )


def test_residual_blocks_fork_join_and_repeat():
    model = nn.Sequential(*[Residual() for _ in range(4)])
    shows(
        named(capture(model(torch.randn(5, 8)).sum(), model=model)),
        """
        loss · 25 operations, 16 leaves, 1.9 KB saved for backward
                #  op               shape  saved  module, leaves
          ●    23  Addmm              5×8  160 B  0.up ‹bias› ‹weight›
          ●    22  Gelu               5×8  160 B  0
          ●    20  Addmm              5×8  160 B  0.down ‹bias› ‹weight›
          ●    19  Add                5×8         0
        ╭ ├─●  17  Addmm              5×8  160 B  1.up ‹bias› ‹weight›
        ╎ │ ●  16  Gelu               5×8  160 B  1
        ╎ │ ●  14  Addmm              5×8  160 B  1.down ‹bias› ‹weight›
        ╎ ●─┘  13  Add                5×8         1
        ╰ │     ⟳ ×2 these 4 operations  Σ 960 B  1 … 2
          ├─●   5  Addmm              5×8  160 B  3.up ‹bias› ‹weight›
          │ ●   4  Gelu               5×8  160 B  3
          │ ●   2  Addmm              5×8  160 B  3.down ‹bias› ‹weight›
          ●─┘   1  Add                5×8         –
          ◉     0  Sum             scalar         ◉ loss
        # is the index in g.nodes · ‹leaf› · –: unknown · saved: kept for backward, counted once
        modules guessed from parameters; bs.watch() records the real ones
        ⟳ unfold: g.text(fold=False) · 8 views hidden: g.text(views=True)
        """,
    )


def test_a_loop_within_a_loop():
    w = torch.ones(3, requires_grad=True)
    h = w * 1.0
    for _ in range(5):
        h = h.sin()
        for _ in range(6):
            h = h + 1
    shows(
        named(capture(h.sum()), "w"),
        """
        loss · 37 operations, 1 leaf, 68 B saved for backward
               #  op              shape  saved  leaves
           ●  36  Mul                 3    8 B  ‹w›
        ╭  ●  35  Sin                 3   12 B
        ╎╭ ●  34  Add                 3
        ╎╰ │   ⟳ ×6
        ╰  │   ⟳ ×5 these 7 operations  Σ 60 B
           ◉   0  Sum            scalar         ◉ loss
        # is the index in g.nodes · ‹leaf› · saved: kept for backward, counted once
        ⟳ unfold: g.text(fold=False)
        """,
    )


def test_a_loop_through_the_results_of_another_is_folded_with_it():
    policy, value = torch.randn(3, 2, requires_grad=True), torch.randn(3, 1, requires_grad=True)
    logs, values = [], []
    for _ in range(30):
        state = torch.randn(3)
        logs.append((state @ policy).log_softmax(0)[0])
        values.append((state @ value).sum())
    losses = [-log * (1 - v.item()) + (v - 1).square() for log, v in zip(logs, values, strict=True)]
    text = named(capture(torch.stack(losses).sum()), "policy", "value").text(width=88)
    assert len(text.splitlines()) < 20 and text.count("⟳ ×30 these") == 2


def test_attention_shows_its_three_branches():
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 5, 8)
    text = capture(attention(x, x, x)[0].sum(), model=attention).text(width=88)
    drawn = [line[:7].rstrip() for line in text.splitlines() if re.search("Select|Bmm|Softmax", line)]
    assert drawn == ["├─●", "├─┼─●", "● │ │", "│ ●─┘", "│ ●", "●─┘"]


def test_gpt2_is_told_in_one_block():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=4, n_embd=16, n_head=2, vocab_size=50, n_positions=16, attn_implementation="eager", use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.zeros(1, 8, dtype=torch.long)
    text = capture(model(ids, labels=ids).loss, model=model).text(width=100)
    assert re.search(r"⟳ ×4 these \d+ operations +Σ [\d.]+ KB  transformer\.h\.0 … h\.3\n", text)
    assert "transformer.h.1" not in text


def test_a_custom_function_says_where_it_is_written():
    w = torch.ones(3, requires_grad=True)
    line = named(capture(Twice.apply(w).sum()), "w").text(width=88).splitlines()[2]
    assert re.fullmatch(r"◆  1  Twice       3  ‹w› test_text\.py:\d+", line)


def test_a_freed_graph_says_so():
    w = torch.ones(3, requires_grad=True)
    loss = w.exp().sum()
    loss.backward()
    shows(
        named(capture(loss), "w"),
        """
        loss · 2 operations, 1 leaf · 1 operation freed by a backward
           #  op    shape  saved  leaves
        ●  1  Exp       3  freed  ‹w›
        ◉  0  Sum  scalar         ◉ loss
        # is the index in g.nodes · ‹leaf›
        """,
    )


def test_what_was_modified_in_place_stands_out():
    w = torch.ones(3, requires_grad=True)
    a = w.exp()
    loss = a.sum()
    a.add_(1)
    graph = named(capture(loss), "w")
    shows(
        graph,
        """
        loss · 2 operations, 1 leaf, 12 B saved for backward · 1 modified in place: will raise
           #  op    shape  saved  leaves
        ●  1  Exp       3   12 B  ✗ result modified v1≠v0 ‹w›
        ◉  0  Sum  scalar         ◉ loss
        # is the index in g.nodes · ‹leaf› · saved: kept for backward, counted once
        """,
    )
    assert "\x1b[1;31m✗ result modified v1≠v0\x1b[0m" in graph.text(color=True)


def test_every_root_is_marked_also_one_in_the_middle():
    w = torch.ones(3, requires_grad=True)
    hidden = w.exp()
    shows(
        named(capture(hidden, hidden.sum()), "w", roots=("hidden", "loss")),
        """
        hidden, loss · 2 operations, 1 leaf, 12 B saved for backward
           #  op    shape  saved  leaves
        ◉  1  Exp       3   12 B  ‹w› ◉ hidden
        ◉  0  Sum  scalar         ◉ loss
        # is the index in g.nodes · ‹leaf› · saved: kept for backward, counted once
        """,
    )


def test_a_graph_that_is_only_a_leaf():
    shows(
        named(capture(torch.ones(3, requires_grad=True)), "w", roots=("",)),
        """
        w · 0 operations, 1 leaf
           #  op    shape
        ◉  0  leaf      3  ◉ w
        # is the index in g.nodes
        """,
    )


def test_a_view_that_is_the_root_stays():
    w = torch.ones(2, 3, requires_grad=True)
    assert "◉  0  T " in capture(w.exp().t()).text()


def test_overwritten_and_unnamed_leaves_are_marked():
    a, b = torch.ones(3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    graph = capture((a * b).sum())
    graph = graph.renamed([replace(graph.leaves[0], name="delta", kind="overwritten"), graph.leaves[1]], ("loss",))
    assert "‹delta, overwritten› ‹unnamed 2×3›" in graph.text()


def test_another_dtype_than_the_usual_is_said():
    w = torch.ones(3, requires_grad=True)
    text = capture((w.sin().double().exp().float().cos() + w).sum()).text()
    assert "3 float64" in text and "float32" not in text


def test_hostile_names_are_spelt_out():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    graph = named(capture((a * b).sum()), "a\x1b[31m\nb", "日本語" * 50, roots=("\u202eloss\x07",))
    text = graph.text(width=60)
    assert r"‹a\x1b[31m\nb›" in text and r"\u202eloss\x07" in text and "日本語" in text
    assert all(cells(line) <= 60 for line in text.splitlines())
    assert all(c.isprintable() or c == "\n" for c in text)


def test_structure_without_details_has_no_shapes_and_no_bytes():
    w = torch.ones(3, requires_grad=True)
    head = capture(w.exp().sum(), details=False).text().splitlines()[1]
    assert head.split() == ["#", "op", "leaves"]


def test_views_are_shown_when_asked_for():
    w = torch.ones(2, 3, requires_grad=True)
    graph = capture(w.exp().t().sum())
    assert " T " not in graph.text() and "1 view hidden" in graph.text()
    assert " T " in graph.text(views=True) and "hidden" not in graph.text(views=True)


def test_colour_adds_nothing_but_colour():
    plain, coloured = linear().text(width=70), linear().text(width=70, color=True)
    assert coloured != plain
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == plain.splitlines()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_print_is_coloured_in_a_terminal_only(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    graph = linear()
    assert "\x1b" not in str(graph)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert "\x1b" in str(graph)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(graph)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in str(graph)


def test_print_falls_back_to_ascii_where_nothing_else_can_be_written(monkeypatch):
    graph = linear()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    print(graph)
    assert "<w>" in str(graph) and str(graph).isascii()


@st.composite
def programs(draw):
    """A loss computed by random operations on random earlier results."""
    leaves = [torch.ones(3, requires_grad=True) for _ in range(draw(st.integers(1, 3)))]
    values = [leaf * 2.0 for leaf in leaves]
    for _ in range(draw(st.integers(0, 25))):
        a, b = draw(st.sampled_from(values[-6:])), draw(st.sampled_from(values[-6:]))
        values.append(draw(st.sampled_from([a.sin, a.exp, lambda a=a, b=b: a * b, lambda a=a: a.view(3)]))())
    return torch.stack(values[-3:]).sum()


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(80, 120), st.booleans())
def test_unfolded_there_is_a_row_for_each_visible_operation(loss, width, views):
    graph = capture(loss)
    drawn = re.findall(r"[●◉](?=[ ─│┘┤┼┴…]* +\d)", graph.text(width=width, views=views, fold=False))
    operations = sum(node.kind == "op" for node in graph.nodes)
    rows = visible(graph, views=views)
    assert len(drawn) == len(rows) == operations - rows.hidden
    assert views <= (rows.hidden == 0)


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(1, 120), st.text(max_size=40), st.booleans())
def test_no_line_is_wider_than_asked_for_or_holds_control_characters(loss, width, name, color):
    graph = capture(loss)
    graph = graph.renamed([replace(leaf, name=name) for leaf in graph.leaves], (name,))
    text = ANSI.sub("", graph.text(width=width, color=color))
    assert all(cells(line) <= max(width, 40) and line.isprintable() for line in text.split("\n"))


@given(st.text(max_size=30), st.integers(0, 30))
def test_cut_text_fits(text, room):
    assert cells(cut(harmless(text), room)) <= room and cells(cut_left(harmless(text), room)) <= room


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1536, "1.5 KB"), (1 << 20, "1 MB"), (88_290_000, "84.2 MB"), (1023, "1 KB")],
)
def test_sizes_are_short(count, text):
    assert size(count) == text


def test_beside_its_module_a_parameter_is_called_by_its_own_name():
    model = nn.Sequential(nn.Linear(3, 2))
    graph = capture(model(torch.randn(4, 3)).sum(), model=model)
    leaves = [replace(leaf, name=f"trainer.model.{leaf.name}") for leaf in graph.leaves]
    assert "0 ‹bias› ‹weight›" in graph.renamed(leaves, ("loss",)).text()


def test_neighboring_elements_are_named_as_one():
    assert together(["output[0]", "output[2]", "output[1]"]) == ["output[0–2]"]
    assert together(["a[0]", "loss", "a[1]", "a[3]", "b[7]", "a"]) == ["a[0–1]", "a[3]", "loss", "b[7]", "a"]
    low, high = torch.ones(4, requires_grad=True).chunk(2)
    graph = capture([low.exp(), low, high])
    text = graph.renamed(graph.leaves, ("net.output[0]", "net.output[1]", "net.output[2]")).text()
    assert text.startswith("net.output[0–2] · ") and "◉ net.output[1–2]\n" in text

"""The table: what fits, what is left out, and what is refused."""

import io
import sys

import pytest
import torch
from profiled import Net, batch

import backsight as bs
from backsight.profiling import Profile, Row
from backsight.profiling.row import ranked


def profile_of(*rows: Row) -> Profile:
    return Profile(ranked(rows), wall=0.010, outside=0.001, finished=True)


LINEAR = Row("AddmmBackward0", "blocks.0.up", (), "node", 1, 1, forward=0.002, backward=0.004)
WEIGHT = Row("AccumulateGrad", "blocks.0.up", ("model.blocks.0.up.weight",), "leaf", 0, 1, backward=0.0005)
ADAM = Row("Adam.step", None, (), "optimizer", 1, 0, update=0.0025)


def test_the_table_of_a_step():
    assert str(profile_of(LINEAR, WEIGHT, ADAM)) == (
        "10 ms: forward 2 ms, backward 4.5 ms, update 2.5 ms; outside operations 1 ms\n"
        "times in ms     module       gradient of               calls  forward  backward  update  total   share\n"
        "AddmmBackward0  blocks.0.up                                1    2.000     4.000          6.000  66.7 %\n"
        "Adam.step                                                  1                      2.500  2.500  27.8 %\n"
        "AccumulateGrad  blocks.0.up  model.blocks.0.up.weight      1              0.500          0.500   5.6 %"
    )


def test_the_table_by_module():
    assert str(profile_of(LINEAR, WEIGHT, ADAM).by_module(depth=2)) == (
        "10 ms: forward 2 ms, backward 4.5 ms, update 2.5 ms; outside operations 1 ms\n"
        "times in ms  forward  backward  update  total   share\n"
        "blocks.0       2.000     4.500          6.500  72.2 %\n"
        "Adam.step                        2.500  2.500  27.8 %"
    )


def test_what_is_nowhere_has_no_column():
    assert str(profile_of(Row("MulBackward0", None, (), "node", 0, 2, backward=0.5e-6))) == (
        "10 ms: backward 0.5 µs; outside operations 1 ms\n"
        "times in µs   calls  backward    share\n"
        "MulBackward0      2     0.500  100.0 %"
    )


def test_where_a_gpu_worked_its_time_decides():
    slow = Row("aten::item", None, (), "operation", 1, 0, forward=0.009)
    fast = Row("MmBackward0", "0", (), "node", 1, 1, 0.001, 0, 0.001, 0, 0.002, 0, 0.003)
    shown = profile_of(slow, fast)
    assert [r.op for r in shown.rows] == ["MmBackward0", "aten::item"]
    assert shown.rows[0].share == 1
    assert "calls  GPU forward  GPU backward  GPU total  CPU total    share" in shown.table(width=140)
    assert "on the GPU 5 ms" in shown.table(width=140)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_names_are_cut_on_the_left_and_numbers_never(width):
    long = Row("AccumulateGrad", "b" * 50, ("model." + "b" * 50 + ".weight",), "leaf", 0, 1, backward=0.0005)
    lines = profile_of(LINEAR, long, ADAM).table(width=width).split("\n")[-4:]
    assert max(map(len, lines)) <= width
    assert any("bbb.weight  " in line for line in lines) and all(line.endswith(" %") for line in lines[1:])
    numbers = lines[1].split()[-1 - (3 if width >= 80 else 1) :]
    assert {"66.7", "%"} < {*lines[1].split()} and "…" not in "".join(numbers)


def test_the_largest_rows_are_shown_and_the_rest_is_counted():
    text = profile_of(LINEAR, WEIGHT, ADAM).table(limit=1)
    assert text.endswith("2 more rows with 33.3 %")
    assert "more rows" not in profile_of(LINEAR, WEIGHT, ADAM).table(limit=None)


def test_a_name_cannot_break_the_table():
    assert len(profile_of(Row("A\nB\x1b[31m", "[bold]x", (), "node", 1, 1, 0.001)).table().split("\n")) == 3
    assert "[bold]x" in profile_of(Row("A", "[bold]x", (), "node", 1, 1, 0.001)).table()


def test_print_falls_back_to_ascii_where_nothing_else_can_be_written(monkeypatch):
    profile = profile_of(Row("SinBackward0", "größe", (), "node", 1, 1, forward=2e-6, backward=1e-6))
    assert "times in µs" in str(profile)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    print(profile)
    assert "times in us" in str(profile) and "gr\\xf6\\xdfe" in str(profile)


def test_rich_shows_it_too():
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=120).print(profile_of(LINEAR, ADAM))
    assert "AddmmBackward0" in out.getvalue()


def test_a_profile_that_runs_says_so():
    with bs.profile() as p:
        assert str(p) == "backsight profile: nothing yet, the profiled block still runs"
        with pytest.raises(RuntimeError, match="the profiled block still runs"):
            p.export_chrome_trace("nowhere.json")
    assert str(p).startswith("backsight profile: no operation ran in ")


def test_a_trace_does_not_travel_in_a_pickle(tmp_path):
    import pickle

    model = Net()
    with bs.profile() as p:
        model(batch()).backward()
    with pytest.raises(RuntimeError, match="a pickled profile leaves its trace behind"):
        pickle.loads(pickle.dumps(p)).export_chrome_trace(tmp_path / "trace.json")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "all", True])
def test_limits_and_depths_are_positive_numbers(wrong):
    with pytest.raises(ValueError, match="expects a positive whole number"):
        profile_of(LINEAR).table(limit=wrong)
    with pytest.raises(ValueError, match="expects a positive whole number"):
        profile_of(LINEAR).by_module(depth=wrong)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (3, r"must be a torch\.nn\.Module or a dict of them by name, not int"),
        ({"net": 3}, r"model\['net'\] must be a torch\.nn\.Module, not int"),
        (torch.ones(1), "not Tensor"),
    ],
)
def test_what_is_no_model_is_refused(wrong, text):
    with pytest.raises(TypeError, match=text):
        bs.profile(wrong)

"""Tags of steps by name: what a million of them are read as."""

import math

import backsight.runs.tags as tags
from backsight.runs import RunWriter, open_run


def written(path, rank=0, world=1):
    return RunWriter(path, rank=rank, world=world)


def test_numbers_are_lines_and_the_rest_is_where_it_changes(tmp_path):
    with written(tmp_path / "run") as writer:
        for step in range(5):
            writer.mark(step, loss=step / 2, phase="warm" if step < 3 else "train", best=step == 4)
        writer.mark(5, loss=math.nan, epoch=7)
    numbers, words = open_run(tmp_path / "run").tags()
    assert {name: steps.tolist() for name, (steps, _) in numbers.items()} == {"loss": [0, 1, 2, 3, 4, 5], "epoch": [5]}
    assert [str(value) for value in numbers["loss"][1]] == ["0.0", "0.5", "1.0", "1.5", "2.0", "nan"]
    assert words == {"phase": [(0, "warm"), (3, "train")], "best": [(0, False), (4, True)]}


def test_what_was_said_last_of_a_step_holds(tmp_path):
    with written(tmp_path / "run") as writer:
        for step, loss in ((3, 1.0), (1, 2.0), (3, 4.0)):
            writer.mark(step, loss=loss)
    steps, values = open_run(tmp_path / "run").tags()[0]["loss"]
    assert (steps.tolist(), values.tolist()) == ([1, 3], [2.0, 4.0])


def test_a_run_that_grows_is_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr(tags, "AT_ONCE", 50)  # less than a line
    with written(tmp_path / "run") as writer:
        run = open_run(tmp_path / "run")
        for step in range(20):
            writer.mark(step, loss=step)
            assert run.tags()[0]["loss"][0].tolist() == list(range(step + 1))


def test_ranks_are_told_apart_if_asked_for(tmp_path):
    for rank in range(2):
        with written(tmp_path / "run", rank, 2) as writer:
            writer.mark(0, loss=float(rank))
            writer.mark(rank + 1, loss=10.0)
    run = open_run(tmp_path / "run")
    assert [column.tolist() for column in run.tags()[0]["loss"]] == [[0, 1, 2], [0.0, 10.0, 10.0]]  # of step 0, rank 0
    assert run.tags(1)[0]["loss"][0].tolist() == [0, 2]
    assert run.tags(1)[0]["loss"][1].tolist() == [1.0, 10.0]


def test_a_program_that_makes_up_names_keeps_only_so_many(tmp_path):
    with written(tmp_path / "run") as writer:
        for step in range(tags.MOST_NAMES + 50):
            writer.mark(step, **{f"n{step}": 1.0, f"w{step}": "x", "huge": 10**400})
    numbers, words = open_run(tmp_path / "run").tags()
    assert (len(numbers), len(words)) == (tags.MOST_NAMES, tags.MOST_NAMES)


def test_damage_is_counted_once_however_it_is_read(tmp_path):
    with written(tmp_path / "run") as writer:
        for step in range(4):
            writer.mark(step, loss=1.0)
    file = tmp_path / "run" / "rank-00000" / "marks.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"step":2', b'"step":9'))
    run = open_run(tmp_path / "run")
    assert run.tags()[0]["loss"][0].tolist() == [0, 1, 3]
    assert len(run.marks) == 3
    assert run.damage.lines == 1

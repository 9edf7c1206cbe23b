"""`backsight run --trace`, `--twice`, and `backsight diff` of commands."""

from __future__ import annotations

import json
import sys

import pytest
from surroundings import HERE

import backsight as bs

SCRIPT = """\
import sys
import torch
torch.manual_seed(0)
eps = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-5
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8, eps=eps), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(6, 4)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def compared(bench, *words):
    """Run `backsight diff` of scripts, which run on forks; the test of `--twice` has them run as processes."""
    return bench._run([sys.executable, str(HERE / "forking.py"), "diff", *words])


def test_a_traced_script_prints_what_it_would(bench):
    bench.write("train.py", SCRIPT)
    plain = bench.python("train.py")
    ran = bench.observed("--quiet", "--trace", "steps=0,2", "--into", "t", "train.py")
    assert (ran.status, ran.out, ran.err) == (0, plain.out, "")
    held = bs.open_trace(bench.folder / "t")
    assert held.whole == (0, 2) and held.notes == ()
    assert {each.module for each in held.operations if each.phase == "forward"} == {"", "0", "1", "2"}


def test_it_says_where_the_trace_is(bench):
    bench.write("train.py", SCRIPT)
    ran = bench.observed("--trace", "steps=0", "--into", "t", "train.py")
    assert "operations traced: backsight diff OTHER t\n" in ran.err


def test_the_trace_of_a_recording_lies_in_its_run(bench):
    bench.write("train.py", SCRIPT)
    ran = bench.observed("--record", "--trace", "steps=0", "train.py")
    (run,) = (bench.folder / "runs").iterdir()
    assert f"operations traced: backsight diff OTHER runs/{run.name}/trace\n" in ran.err
    assert not (bench.folder / "traces").exists()
    assert len(bs.open_run(run).steps) == 3 and bs.open_trace(run).whole == (0,)


def test_the_trace_follows_a_recording_whose_folder_was_taken(bench):
    bench.write("train.py", SCRIPT)
    for _ in range(2):
        ran = bench.observed("--record", "--run", "runs/same", "--trace", "steps=0", "train.py")
    assert "operations traced: backsight diff OTHER runs/same-2/trace\n" in ran.err
    assert bs.open_trace(bench.folder / "runs/same").whole == bs.open_trace(bench.folder / "runs/same-2").whole == (0,)
    assert sorted(each.name for each in (bench.folder / "runs/same").iterdir()) == [".job", "rank-00000", "trace"]


def test_the_trace_of_a_report_alone_stays(bench):
    bench.write("train.py", SCRIPT)
    bench.observed("--report", "report.html", "--trace", "steps=0", "train.py")
    assert (bench.folder / "report.html").exists() and not (bench.folder / "runs").exists()
    (trace,) = (bench.folder / "traces").iterdir()
    assert bs.open_trace(trace).whole == (0,)


def test_a_program_that_ends_early_says_so(bench):
    bench.write("train.py", SCRIPT)
    ran = bench.observed("--trace", "steps=7", "--into", "t", "train.py")
    assert "nothing traced: only 3 steps of optimizers ended, and --trace asks for step 7" in ran.err
    assert bs.open_trace(bench.folder / "t").notes == ("ended before step 7 began",)


def test_two_commands_are_run_and_compared(bench):
    bench.write("train.py", SCRIPT)
    ran = compared(bench, "--json", "--", "python train.py", "train.py 1e-3")
    told = json.loads(ran.out)
    assert ran.status == 1 and told["findings"][0]["code"] == "BS501"
    assert told["steps"][0]["origins"][0]["reasons"][0] == "`eps` is 1e-05 in A and 0.001 in B"


def test_two_scripts_are_run_and_compared_without_more_words(bench):
    bench.write("old.py", SCRIPT)
    bench.write("new.py", SCRIPT)
    ran = compared(bench, "old.py", "new.py")
    assert ran.status == 0 and ran.out.startswith("backsight: no difference in 3 steps: ")
    assert "backsight: running A: old.py\n" in ran.err and "ended after" not in ran.err, "progress is for terminals"


DECAYED = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=DECAY)
for _ in range(2):
    loss = model(torch.ones(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_setting_of_the_optimizer_is_the_cause_and_no_number_that_follows_from_it(bench):
    for name, decay in (("old.py", 0.01), ("new.py", 0.1)):
        bench.write(name, DECAYED.replace("DECAY", str(decay)))
    ran = compared(bench, "old.py", "new.py")
    assert ran.out.startswith("backsight: the trainings diverge in step 0: they compute different things\n")
    assert (
        "BS508  The updates diverge in step 0: `weight_decay` of the optimizer is 0.01 in A and 0.1 in B.\n" in ran.out
    )
    assert "`other`" not in ran.out
    assert "mul_(" not in ran.out  # the setting says it
    assert "The same happens to 1 more parameter.\n" in ran.out
    assert "bars: relative difference of each module or tensor; " in ran.out


@pytest.mark.slow
def test_data_in_the_order_of_a_set_of_words_is_told_of_the_hash_seed(bench, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    ordered = "x = torch.tensor([[float(ord(c)) / 99 for c in word] for word in [*{f'{k:04}' for k in range(99)}][:6]])"
    bench.write("train.py", SCRIPT.replace("x = torch.randn(6, 4)", ordered))
    ran = bench.observed("--twice", "train.py")
    assert ran.status == 1 and "BS505" in ran.out
    assert "Python's hash seed is random" in ran.out


@pytest.mark.parametrize("wrong", ["steps=", "steps=a", "steps=-1", "0,,1", "steps=1.5"])
def test_steps_that_are_none_are_refused(bench, wrong):
    ran = bench.observed("--trace", wrong, "train.py")
    assert ran.status == 2 and "must name steps, counted from 0, as in steps=0,1,100" in ran.err


def test_a_trace_is_compared_with_a_trace_alone(bench):
    (bench.folder / "there").mkdir()
    for words in (["there", "nothing"], ["python train.py", "there"]):
        ran = bench._run([sys.executable, "-m", "backsight", "diff", *words])
        other = next(each for each in words if each != "there")
        assert ran.status == 2
        assert f"there is no trace at {other!r}. Pass the folders of two traces, or two commands" in ran.err


def test_what_is_neither_a_trace_nor_a_command_is_refused(bench):
    ran = bench._run([sys.executable, "-m", "backsight", "diff", "nothing", "here"])
    assert ran.status == 2
    assert "'nothing' is neither the folder of a trace nor a command: write 'python train.py'" in ran.err


@pytest.mark.parametrize("words", [["train.py", "typo.py"], ["python typo.py --lr 1", "train.py"], ["typo.py", "b.py"]])
def test_a_script_that_is_not_there_is_said_before_anything_runs(bench, words):
    bench.write("train.py", SCRIPT)
    ran = bench._run([sys.executable, "-m", "backsight", "diff", *words])
    assert (ran.status, ran.out, ran.err) == (2, "", "backsight: there is no file typo.py.\n")


def test_a_finding_of_one_of_two_programs_says_which_and_shows_its_lines(bench):
    plain = DECAYED.replace("DECAY", "0.1")
    given = "torch.nn.functional.cross_entropy(model(torch.ones(3, 4)){}, torch.tensor([0, 1, 0]))"
    plain = plain.replace("model(torch.ones(3, 4)).square().mean()", given)
    bench.write("old.py", plain.replace("{}", ""))
    bench.write("new.py", plain.replace("{}", ".softmax(1)"))
    ran = compared(bench, "old.py", "new.py")
    assert "backsight found in B (new.py)\n" in ran.err
    assert "in A (old.py)" not in ran.err
    finding = ran.err.partition("BS122")[2]
    assert "\n  new.py:7  loss = " in finding and "\n  fix: " in finding


def test_a_program_that_is_compared_does_not_see_which_it_is(bench):
    bench.write("train.py", SCRIPT + "\nimport os\nprint('BACKSIGHT_PROGRAM' in os.environ)\n")
    ran = compared(bench, "train.py", "train.py")
    assert ran.err.count("False\n") == 2

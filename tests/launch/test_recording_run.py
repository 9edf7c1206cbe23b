"""`backsight run --record`: an unmodified script is recorded, and nothing else about it changes."""

import re

import pytest

import backsight as bs

LOOP = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    loss = criterion(model(torch.randn(16, 4)), torch.ones(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(*(p.double().sum().item() for p in model.parameters()))
"""


def recorded(bench, source, *options, name="train.py", **more):
    """Run a script with `--record` into the folder `run`."""
    bench.write(name, source)
    return bench.observed("--record", "--run", "run", *options, name, **more)


def last_line(ended):
    return ended.err.splitlines()[-1]


def test_every_tensor_is_recorded_from_the_first_step_under_the_names_of_the_program(bench):
    ended = recorded(bench, LOOP)
    run = bs.open_run(bench.folder / "run")
    assert ended.status == 0
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5]
    first = run.frame(steps=0, as_="numpy")
    assert {("model.output", "output"), ("model.0.weight", "weight"), ("model.2.bias", "grad")} <= set(
        zip(first["tensor"], first["kind"], strict=True)
    )
    assert {"model.input", "criterion.target", "criterion.output"} <= set(first["tensor"])
    assert "model.0.weight.exp_avg" in first["tensor"]


def test_the_weights_are_identical_to_the_last_bit(bench):
    ended = recorded(bench, LOOP)
    assert ended.out == bench.python("train.py").out


def test_the_folder_is_said_at_the_end_in_one_line(bench):
    ended = recorded(bench, LOOP)
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"
    assert len(ended.err.splitlines()) == 2  # the other is the audit's


def test_and_not_when_asked_to_be_quiet(bench):
    assert recorded(bench, LOOP, "--quiet").err == ""
    assert len(bs.open_run(bench.folder / "run").steps) == 6


def test_without_a_folder_the_run_is_named_by_time_and_script(bench):
    bench.write("train.py", LOOP)
    ended = bench.observed("--record", "train.py")
    (run,) = bs.runs_in(bench.folder / "runs")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-train", run.name)
    assert last_line(ended) == f"backsight: 6 steps recorded: backsight runs show runs/{run.name}"


def test_the_folder_is_where_the_program_was_started_though_it_goes_elsewhere(bench):
    (bench.folder / "elsewhere").mkdir()
    recorded(bench, "import os; os.chdir('elsewhere')\n" + LOOP)
    assert len(bs.open_run(bench.folder / "run").steps) == 6


def test_a_folder_with_a_run_in_it_is_left_alone(bench):
    recorded(bench, LOOP)
    ended = recorded(bench, LOOP)
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run-2"
    assert "backsight: recording into" in ended.err and "Warning" not in ended.err


def test_every_so_many_steps(bench):
    ended = recorded(bench, LOOP, "--every", "4")
    assert bs.open_run(bench.folder / "run").steps.tolist() == [0, 4]
    assert last_line(ended).startswith("backsight: 6 steps, 1 in 4 of them, recorded")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--every", "2"], "--run and --every are about a recording: add --record"),
        (["--record", "--every", "0"], "argument --every: has to be at least 1, and it is 0"),
        (["--record", "--every", "few"], "argument --every: has to be at least 1, and it is few"),
    ],
)
def test_options_that_make_no_sense_are_refused(bench, options, said):
    bench.write("train.py", "print('ran')")
    ended = bench.observed(*options, "train.py")
    assert (ended.status, ended.out) == (2, "") and said in ended.err


def test_a_module_is_recorded_too(bench):
    bench.write("package/__init__.py", "")
    bench.write("package/train.py", LOOP)
    bench.observed("--record", "-m", "package.train")
    (run,) = bs.runs_in(bench.folder / "runs")
    assert run.name.endswith("-train") and len(run.steps) == 6


# ---- models


TWO = """
import torch
from torch import nn

class Trainer:
    def __init__(self):
        self.generator, self.critic = nn.Linear(2, 3), nn.Linear(3, 1)
        self.optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (self.critic, self.generator)]

    def fit(self):
        for _ in range(4):
            fake = self.generator(torch.ones(5, 2))
            for optimizer in self.optimizers:
                optimizer.zero_grad()
                self.critic(fake.detach() if optimizer is self.optimizers[0] else fake).sum().backward()
                optimizer.step()

Trainer().fit()
"""


def test_several_models_are_recorded_into_one_run_each_under_its_name(bench):
    recorded(bench, TWO)
    run = bs.open_run(bench.folder / "run")
    assert [root["name"] for root in run.tree] == ["generator", "critic"]
    latest = run.frame(kind="grad", steps=int(run.steps[-1]), as_="numpy")
    assert set(latest["tensor"]) == {"generator.weight", "generator.bias", "critic.weight", "critic.bias"}


def test_of_models_that_are_called_in_the_midst_of_the_first_step_the_weights_are_in_it(bench):
    ended = recorded(bench, TWO)
    run = bs.open_run(bench.folder / "run")
    assert last_line(ended) == "backsight: 4 steps recorded: backsight runs show run"
    for step in range(4):
        held = run.frame(kind="weight", steps=step, as_="numpy")["tensor"]
        assert sorted(held) == ["critic.bias", "critic.weight", "generator.bias", "generator.weight"]


def test_a_model_of_the_same_name_gets_a_number(bench):
    fit = LOOP.replace("\n", "\n    ").replace("    import torch\n    from torch import nn\n", "", 1)
    recorded(bench, f"import torch\nfrom torch import nn\ndef fit():\n    {fit}\nfit()\nfit()\n")
    run = bs.open_run(bench.folder / "run")
    assert [root["name"] for root in run.tree if root["type"] == "Sequential"][-1] == "model_2"
    assert len(run.steps) == 12


def test_modules_that_are_made_anew_in_every_step_are_not_followed_for_ever(bench):
    ended = recorded(bench, LOOP.replace("criterion(model", "nn.MSELoss()(model").replace("range(6)", "range(50)"))
    run = bs.open_run(bench.folder / "run")
    assert [root["name"] for root in run.tree] == ["model"] and len(run.steps) == 50
    assert ended.out == bench.python("train.py").out


def test_of_losses_that_are_made_anew_in_every_step_the_name_is_looked_for_only_a_few_times(bench):
    asked = "from backsight.launch import models as found\nlooked = []\nsearch = found.search\n"
    asked += "found.search = lambda *what, **how: looked.append(what) or search(*what, **how)\n"
    source = asked + LOOP.replace("criterion(model", "nn.MSELoss()(model").replace("range(6)", "range(50)")
    ended = recorded(bench, source + "print(len(looked))")
    assert int(ended.out.split()[-1]) <= 4


def test_a_compiled_model_is_recorded_without_a_warning(bench):
    source = LOOP.replace("for step", "compiled = torch.compile(model, backend='aot_eager')\nfor step")
    ended = recorded(bench, source.replace("criterion(model", "criterion(compiled"), flags=("-W", "error:Using"))
    run = bs.open_run(bench.folder / "run")
    assert ended.status == 0
    assert {tensor.kind for tensor in run.tensors} >= {"weight", "grad", "state", "output"}


def test_evaluation_counts_as_such(bench):
    recorded(bench, LOOP + "with torch.no_grad():\n    model(torch.randn(3, 4))\n")
    run = bs.open_run(bench.folder / "run")
    assert set(run.frame(steps=6, kind="eval_output", as_="numpy")["tensor"]) >= {"model.output"}


# ---- programs that are no training, or fail


def test_a_script_without_torch_is_left_alone(bench):
    ended = recorded(bench, "import sys\nprint('torch' in sys.modules, sys.argv)\nsys.exit(3)", flags=("-W", "error"))
    assert (ended.status, ended.out) == (3, "False ['train.py']\n")
    assert ended.err == "backsight: nothing recorded: the program did not import torch\n"
    assert not (bench.folder / "run").exists()


def test_a_script_without_modules_is_left_alone(bench):
    ended = recorded(bench, "import torch\nprint(torch.ones(2).sum().item())")
    assert (ended.status, ended.out) == (0, "2.0\n")
    assert last_line(ended) == "backsight: nothing recorded: no module was called"
    assert not (bench.folder / "run").exists()


def test_without_an_optimizer_what_there_was_is_one_step(bench):
    ended = recorded(bench, "import torch\nmodel = torch.nn.Linear(2, 1)\nmodel(torch.ones(3, 2)).sum().backward()")
    said, why, cure = ended.err.splitlines()[-3:]
    assert said == "backsight: 1 step recorded: backsight runs show run"
    assert why == "  It is one step as no optimizer ended any. A loop without an optimizer ends its steps itself:"
    assert "rec.step()" in cure
    kinds = set(bs.open_run(bench.folder / "run").frame(as_="numpy")["kind"])
    assert {"weight", "grad", "output"} <= kinds


def test_what_came_before_an_error_is_recorded_and_the_error_is_explained(bench):
    ended = recorded(bench, LOOP.replace("    optimizer.step()", "    optimizer.step()\nloss.backward()"))
    assert ended.status == 1 and "backsight explains" in ended.err
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"
    assert len(bs.open_run(bench.folder / "run").steps) == 6


def test_what_was_recorded_survives_a_kill(bench):
    kill = "import os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)\n"
    ended = recorded(bench, LOOP + kill)
    assert ended.status == -9
    assert len(bs.open_run(bench.folder / "run").steps) == 6


def test_of_a_recording_that_ended_early_it_is_said_how_much_there_is(bench):
    full = "import signal, resource, time\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
    ended = recorded(bench, full + LOOP.replace("range(6)", "range(2000)"))
    held = len(bs.open_run(bench.folder / "run").steps)
    assert ended.status == 0 and "recording has ended, and the training goes on without it" in ended.err
    assert last_line(ended) == f"backsight: only {held} of 2,000 steps recorded: backsight runs show run"


def test_a_folder_that_cannot_be_made_is_one_line(bench):
    bench.write("taken", "a file")
    bench.write("train.py", LOOP)
    ended = bench.observed("--record", "--run", "taken/run", "train.py", flags=("-W", "error"))
    assert ended.status == 0 and ended.out == bench.python("train.py").out
    assert len([line for line in ended.err.splitlines() if "nothing is recorded" in line]) == 1
    assert "Traceback" not in ended.err


def test_a_failure_of_ours_is_one_line_and_not_the_end(bench):
    source = LOOP.replace(
        "for step",
        "import backsight.launch.models as ours\n"
        "def fail(*args, **options): raise ValueError('inside backsight')\n"
        "ours.search = fail\n"
        "for step",
    )
    ended = recorded(bench, source)
    assert ended.status == 0 and ended.out == bench.python("train.py").out
    assert "backsight: recording no further models: ValueError: inside backsight" in ended.err.splitlines()
    assert "Traceback" not in ended.err


def test_several_processes_have_to_be_told_a_folder(bench):
    bench.write("train.py", LOOP)
    ended = bench.observed("--record", "train.py", env={"RANK": "0", "WORLD_SIZE": "2"})
    assert ended.status == 0
    assert (
        "not recording: ValueError: each of several processes has to be told the same run: --into runs/NAME"
        in ended.err
    )


def test_and_then_each_writes_its_own_part_and_the_first_one_speaks(bench):
    bench.write("train.py", LOOP)
    said = [
        bench.observed("--record", "--run", "run", "train.py", env={"RANK": rank, "WORLD_SIZE": "2"}).err
        for rank in "01"
    ]
    assert "recorded: backsight runs show run" in said[0] and said[1] == ""
    assert bs.open_run(bench.folder / "run").ranks == (0, 1)


DIVERGING = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e30)
for _ in range(4):
    loss = model(torch.randn(4, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_run_that_diverged_says_so_at_the_end(bench):
    bench.write("train.py", DIVERGING)
    ended = bench.observed("--record", "--run", "lost", "train.py")
    assert "recorded, and weights are NaN or infinite: backsight runs audit lost" in ended.err

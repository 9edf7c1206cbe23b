"""`backsight run --record`: an unmodified script is recorded, and nothing else about it changes."""

import ast
import re
import textwrap

import pytest

import backsight as bs
from backsight.tables.listing import listed
from backsight.viewer import Library

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


CLOSURE = """
    x = torch.randn(16, 4)
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), torch.ones(16, 1))
        loss.backward()
        return loss
    optimizer.step(closure)
"""


def recorded(bench, source, *options, every=1, name="train.py", **more):
    """Run a script with `--record` into the folder `run`.

    every: every how many steps; None for as many as there is time for, which on a busy machine may be the first alone.
    """
    bench.write(name, source)
    schedule = () if every is None else ("--every", str(every))
    return bench.observed("--record", "--run", "run", *schedule, *options, name, **more)


def last_line(ended):
    return ended.err.splitlines()[-1]


@pytest.mark.process
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
    ended = bench.observed("--record", "--every", "1", "train.py")
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
    ended = recorded(bench, LOOP, every=4)
    assert bs.open_run(bench.folder / "run").steps.tolist() == [0, 4]
    assert last_line(ended).startswith("backsight: 6 steps, 1 in 4 of them, recorded")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--every", "2"], "--run and --every need a recording: add --record"),
        (["--record", "--every", "0"], "argument --every: must be at least 1, not 0"),
        (["--record", "--run", ""], "argument --run/--into: must be the name of a folder, not ''"),
        (["--record", "--every", "few"], "argument --every: must be at least 1, not few"),
    ],
)
def test_options_that_make_no_sense_are_refused(bench, options, said):
    bench.write("train.py", "print('ran')")
    ended = bench.observed(*options, "train.py")
    assert (ended.status, ended.out) == (2, "") and said in ended.err


def test_a_module_is_recorded_too(bench):
    bench.write("package/__init__.py", "")
    bench.write("package/train.py", LOOP)
    bench.observed("--record", "--every", "1", "-m", "package.train")
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
    assert last_line(ended) == "backsight: 4 steps (8 optimizer steps) recorded: backsight runs show run"
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


def test_of_how_many_modules_calls_are_left_out_is_said(bench):
    lines = """
    import torch
    layers = [torch.nn.Linear(2, 2) for _ in range(35)]
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
    for _ in range(3):
        y = torch.ones(4, 2)
        for layer in layers:
            y = layer(y).tanh()
        y.sum().backward()
        optimizer.step()
    """
    ended = recorded(bench, textwrap.dedent(lines))
    said = "3 steps recorded, without inputs and outputs of 3 modules after the first ones that the program calls: "
    assert last_line(ended) == f"backsight: {said}backsight runs show run"


def test_of_losses_that_are_made_anew_in_every_step_the_name_is_looked_for_only_a_few_times(bench):
    asked = "import torch\nfrom backsight.recording import called\nlooked = []\nframes = called._frames\n"
    asked += "called._frames = lambda: looked.append(1) or frames()\n"  # once a search; it holds no module
    source = asked + LOOP.replace("criterion(model", "nn.MSELoss()(model").replace("range(6)", "range(50)")
    ended = recorded(bench, source + "print(len(looked))")
    assert 0 < int(ended.out.split()[-1]) <= 4


@pytest.mark.slow
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


@pytest.mark.process
def test_a_script_without_torch_is_left_alone(bench):
    ended = recorded(bench, "import sys\nprint('torch' in sys.modules, sys.argv)\nsys.exit(3)", flags=("-W", "error"))
    assert (ended.status, ended.out) == (3, "False ['train.py']\n")
    assert ended.err == "backsight: nothing recorded: the program did not import torch\n"
    assert not (bench.folder / "run").exists()


def test_a_script_without_modules_is_left_alone(bench):
    ended = recorded(bench, "import torch\nprint(torch.ones(2).sum().item())")
    assert (ended.status, ended.out) == (0, "2.0\n")
    assert last_line(ended) == "backsight: nothing recorded: backsight saw no call of a model and no optimizer step"
    assert not (bench.folder / "run").exists()


def test_without_an_optimizer_steps_are_backward_passes(bench):
    source = LOOP.replace(
        "    optimizer.step()", "    with torch.no_grad():\n        for p in model.parameters(): p -= p.grad / 10"
    )
    source = source.replace("optimizer = torch.optim.Adam(model.parameters())", "").replace("optimizer.", "model.")
    ended = recorded(bench, source)
    run = bs.open_run(bench.folder / "run")
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5] and ended.out == bench.python("train.py").out
    weights, gradients = (run.series("model.2.bias", "mean", kind=kind).values for kind in ("weight", "grad"))
    assert weights[1] == pytest.approx(weights[0] - gradients[0] / 10)


BY_HAND = """
for step in range(5):
    loss = criterion(model(torch.randn(16, 4)), torch.ones(16, 1))
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= p.grad / 10
"""


@pytest.mark.parametrize("optimizer", ["stays", "goes"])
def test_steps_by_hand_are_counted_also_where_an_optimizer_has_stepped_before(bench, optimizer):
    by_hand = BY_HAND if optimizer == "stays" else "\ndel optimizer" + BY_HAND.replace("p -= ", "p.data -= ")
    ended = recorded(bench, LOOP + by_hand)
    assert bs.open_run(bench.folder / "run").steps.tolist() == list(range(11))
    assert last_line(ended) == "backsight: 11 steps recorded: backsight runs show run"


def test_steps_by_hand_are_counted_where_they_begin_between_two_recorded_steps(bench):
    source = LOOP + BY_HAND.replace("range(5)", "range(20)") + LOOP[LOOP.index("for step") :]
    ended = recorded(bench, source, every=8)
    assert bs.open_run(bench.folder / "run").steps.tolist() == [0, 8, 16, 24]
    assert last_line(ended) == "backsight: 32 steps, 1 in 8 of them, recorded: backsight runs show run"


def test_an_optimizer_ends_steps_again_after_steps_by_hand(bench):
    again = LOOP[LOOP.index("for step") :].replace("optimizer.step()", "if step % 3 == 2: optimizer.step()")
    ended = recorded(bench, LOOP + BY_HAND + again)
    assert last_line(ended) == "backsight: 13 steps recorded: backsight runs show run"


def test_more_gradients_are_accumulated_than_an_optimizer_is_waited_for_at_first(bench):
    source = LOOP.replace("    optimizer.zero_grad()", "").replace("range(6)", "range(120)")
    recorded(bench, source.replace("    optimizer.step", "    if step % 30 == 29: optimizer.step"))
    run = bs.open_run(bench.folder / "run")
    counts = run.frame(kind="grad", tensor="model.2.bias", as_="numpy")["step"].tolist()
    assert [counts.count(step) for step in run.steps.tolist()[-3:]] == [30, 30, 30]


def test_passes_that_an_optimizer_asks_for_itself_are_its_own_step(bench):
    wanted = "LBFGS(model.parameters(), max_iter=40, line_search_fn='strong_wolfe')"
    source = LOOP.replace("Adam(model.parameters())", wanted)
    source = source.replace("    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n", CLOSURE)
    ended = recorded(bench, source)
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"


def test_an_optimizer_that_accumulates_first_is_waited_for(bench):
    recorded(
        bench,
        LOOP.replace("    optimizer.zero_grad()", "").replace(
            "    optimizer.step", "    if step % 3 == 2: optimizer.step"
        ),
    )
    run = bs.open_run(bench.folder / "run")
    assert run.steps.tolist() == [0, 1]
    grads = run.frame(kind="grad", tensor="model.2.bias", as_="numpy")
    assert len(grads["step"]) == 6


def test_what_was_called_and_not_trained_is_a_step_that_has_not_ended(bench):
    ended = recorded(bench, "import torch\nmodel = torch.nn.Linear(2, 1)\nmodel(torch.ones(3, 2)).sum()")
    assert last_line(ended) == "backsight: 1 step, which did not end, recorded: backsight runs show run"


@pytest.mark.parametrize("gone", ["", "del optimizer"])
def test_an_optimizer_in_the_place_of_another_is_an_event_of_the_run(bench, gone):
    again = LOOP[LOOP.index("optimizer =") :].replace("Adam(", "SGD(lr=0.1, params=")
    recorded(bench, f"{LOOP}\n{gone}\n{again}")
    run = bs.open_run(bench.folder / "run")
    events = [(event.step, event.details) for event in run.events if event.event == "optimizer replaced"]
    assert events == [(6, {"by": "SGD"})] and len(run.steps) == 12


@pytest.mark.parametrize(
    ("rest", "steps"),
    [
        ("loss = model(torch.randn(16, 4)).sum(); loss.backward()", "7 steps, the last of which did not end,"),
        ("with torch.no_grad(): model(torch.randn(16, 4))", "6 steps"),
    ],
    ids=["a step that stops", "evaluation"],
)
def test_a_step_that_has_not_ended_is_told_and_an_evaluation_is_none(bench, rest, steps):
    ended = recorded(bench, LOOP + rest)
    run, made = bs.open_run(bench.folder / "run"), int(steps[0])
    assert (len(run.steps), len(run.training_steps)) == (7, made)
    assert (listed(run).steps, Library(bench.folder).ask("run", "about", {})["steps"]["count"]) == (made, made)
    assert f" in {made} steps of " in str(run.audit())
    assert last_line(ended) == f"backsight: {steps} recorded: backsight runs show run"


def test_what_came_before_an_error_is_recorded_and_the_error_is_explained(bench):
    ended = recorded(bench, LOOP.replace("    optimizer.step()", "    optimizer.step()\nloss.backward()"))
    assert ended.status == 1 and "backsight explains" in ended.err
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"
    assert len(bs.open_run(bench.folder / "run").steps) == 6


KILL = "import os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)\n"


def test_what_was_recorded_survives_a_kill(bench):
    ended = recorded(bench, LOOP + KILL, killed=True)
    assert ended.status == -9
    assert len(bs.open_run(bench.folder / "run").steps) == 6


@pytest.mark.parametrize("end", ["", KILL], ids=["ended", "killed"])
def test_every_step_has_its_loss_and_learning_rate(bench, end):
    told = LOOP.replace("    loss.backward()", "    losses.append(loss.item())\n    loss.backward()")
    told = told.replace("for step in range(6):", "losses = []\nfor step in range(50):")
    told = told.replace(
        "    optimizer.step()", "    optimizer.param_groups[0]['lr'] = 1 / (1 + step)\n    optimizer.step()"
    )
    ended = recorded(bench, told + "print(losses, flush=True)\n" + end, every=16, killed=bool(end))
    run = bs.open_run(bench.folder / "run")
    assert run.steps.tolist() == [0, 16, 32, 48]
    loss, rate = (run.scalars()[name] for name in ("loss", "lr"))
    assert loss.steps.tolist() == rate.steps.tolist() == list(range(50))
    assert loss.values.tolist() == ast.literal_eval(ended.out.splitlines()[1])
    assert rate.values.tolist() == [1 / (1 + step) for step in range(50)]


def test_of_a_recording_that_ended_early_it_is_said_how_much_there_is(bench):
    full = "import signal, resource, time\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
    ended = recorded(bench, full + LOOP.replace("range(6)", "range(2000)"))
    held = len(bs.open_run(bench.folder / "run").steps)
    assert ended.status == 0 and "recording stopped; training continues without it" in ended.err
    assert last_line(ended) == f"backsight: only {held} of 2,000 steps recorded: backsight runs show run"


def test_of_a_recording_that_is_not_there_any_more_no_steps_are_told(bench):
    lines = "    if step == 3:\n        import shutil, time; time.sleep(0.5); shutil.rmtree('run/rank-00000')\n"
    ended = recorded(bench, LOOP.replace("    loss.backward()\n", f"{lines}    loss.backward()\n"))
    assert ended.status == 0 and last_line(ended) == "backsight: there is no recording in run anymore"


def test_a_folder_that_cannot_be_made_is_one_line(bench):
    bench.write("taken", "a file")
    bench.write("train.py", LOOP)
    ended = bench.observed("--record", "--run", "taken/run", "train.py", flags=("-W", "error"))
    assert ended.status == 0 and ended.out == bench.python("train.py").out
    assert len([line for line in ended.err.splitlines() if "not recording" in line]) == 1
    assert "Traceback" not in ended.err


def test_a_failure_of_ours_is_one_line_and_not_the_end(bench):
    source = LOOP.replace(
        "for step",
        "import backsight.launch.models as ours\n"
        "def fail(*args, **options): raise ValueError('inside backsight')\n"
        "ours.lasting = fail\n"
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
    assert "not recording: ValueError: every process must get the same run: --into runs/NAME" in ended.err


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
    said = " ".join(ended.err.split())
    assert "BS108" in said
    assert "fix: The recording shows where it began: backsight runs audit lost names the first tensor" in said
    alone = bench.observed("train.py").err
    assert "BS108" in alone and "recording" not in alone


ALIKE = """
import torch
from torch import nn

torch.manual_seed(0)
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.hidden = nn.ModuleList([nn.Linear(8, 8) for _ in range(20)])
        self.last = nn.Linear(8, 1)
        for layer in self.hidden:
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, x):
        x = self.first(x)
        for layer in self.hidden:
            x = layer(x).tanh()
        return self.last(x)


model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(20):
    loss = nn.functional.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


SLOPES = """
import torch
from torch import nn

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(field.parameters(), lr=0.05)
points = torch.rand(16, 2, requires_grad=True)
for step in range(40):
    (slope,) = torch.autograd.grad(field(points).sum(), points, create_graph=True)
    loss = (slope - points).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_note_that_was_not_shown_is_not_kept_either(bench):
    assert "but 2 notes, BS102 and BS101 (--notes shows them)" in recorded(bench, SLOPES).err
    assert not {"BS101", "BS102"} & {finding.code for finding in bs.open_run(bench.folder / "run").audit()}


def test_what_is_found_while_it_runs_is_found_in_the_recording_once(bench):
    said = " ".join(recorded(bench, ALIKE).err.split())
    assert "BS114" in said
    assert "`backsight runs show run` marks the layers whose gradients are zero." in said, "it is recorded already"
    assert "an audit of the recording finds 2 more warnings and 1 note: backsight runs audit run" in said
    run = bs.open_run(bench.folder / "run")
    found = {finding.code: finding for finding in run.audit()}
    assert {"BS114", "BS302"} <= set(found)
    assert found["BS114"].title == "model returns bit-identical outputs for all 16 rows of its input."
    assert found["BS114"].evidence[0].text.startswith("This happened in 3 steps in a row")
    assert "`backsight runs show run` marks" in found["BS114"].fix
    assert found["BS302"].source == f"{bench.folder / 'train.py'}:18", "where most of the layers are"


def test_of_weights_that_end_as_nan_the_recording_tells_more(bench):
    recorded(bench, ROOT)
    (event,) = [event for event in bs.open_run(bench.folder / "run").events if event.event == "findings"]
    assert [each["code"] for each in event.details["findings"]] == ["BS108"]
    (finding,) = [each for each in bs.open_run(bench.folder / "run").audit() if each.severity == "error"]
    assert (finding.code, finding.source) == ("BS301", f"{bench.folder / 'train.py'}:13")
    assert [each.code for each in bs.open_run(bench.folder / "run").audit() if each.code == "BS108"] == []


ROOT = """
import torch
from torch import nn

torch.manual_seed(0)
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.var = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        std = torch.sqrt(self.var)
        return self.fc(x) * std


model = Scale()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    loss = model(torch.randn(16, 4)).square().mean() + model.var
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


# ---- programs that train something else than a model which they call


def kinds_of(bench):
    """Return the kinds of the rows of each tensor of the run, and its steps."""
    run = bs.open_run(bench.folder / "run")
    held = run.frame(as_="numpy")
    return {
        name: {kind for tensor, kind in zip(held["tensor"], held["kind"], strict=True) if tensor == name}
        for name in held["tensor"]
    }, run.steps.tolist()


IMAGE = """
import torch
image = torch.zeros(3, 4, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.1)
for _ in range(5):
    loss = (image - 1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(image.sum().item())
"""


def test_an_image_that_is_optimized_is_recorded_under_its_name(bench):
    ended = recorded(bench, IMAGE)
    kinds, steps = kinds_of(bench)
    assert kinds == {"image": {"weight", "grad"}, "image.exp_avg": {"state"}, "image.exp_avg_sq": {"state"}}
    assert steps == [0, 1, 2, 3, 4] and ended.out == bench.python("train.py").out
    assert last_line(ended) == "backsight: 5 steps recorded: backsight runs show run"


def test_parameters_in_objects_of_the_program_and_beside_models_are_recorded(bench):
    source = """
import torch
class GP:
    def __init__(self):
        self.raw = {"length": torch.zeros(1, requires_grad=True)}
        self.noise = torch.nn.Parameter(torch.ones(1))
gp, scales = GP(), [torch.ones(2, requires_grad=True)]
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([gp.raw["length"], gp.noise, *scales, *model.parameters()], lr=0.1)
for _ in range(4):
    loss = model(torch.ones(3, 2) * scales[0]).exp().mean() * gp.raw["length"].exp() + gp.noise
    optimizer.zero_grad()
    loss.sum().backward()
    optimizer.step()
"""
    recorded(bench, source)
    kinds, steps = kinds_of(bench)
    assert steps == [0, 1, 2, 3]
    for name in ("gp.raw['length']", "gp.noise", "scales[0]", "model.weight", "model.bias"):
        assert kinds[name] == {"weight", "grad"}, name
    assert {"input", "output"} <= kinds["model.input"] | kinds["model.output"]


def test_a_model_that_is_called_through_forward_is_recorded(bench):
    source = LOOP.replace("criterion(model(", "criterion(model.forward(")
    recorded(bench, source)
    kinds, steps = kinds_of(bench)
    assert steps == [0, 1, 2, 3, 4, 5]
    assert kinds["model.0.weight"] >= {"weight", "grad"} and kinds["model.2.bias"] >= {"weight", "grad"}


SOLVER = """
import torch
from torch import nn

class Perturbed(nn.Module):
    def __init__(self, func):
        super().__init__()
        self.func = func
    def forward(self, t, y):
        return self.func(t, y)

class Reversed(nn.Module):
    def __init__(self, func):
        super().__init__()
        self.inner = func
    def forward(self, t, y):
        return self.inner(-t, y)

def odeint(func, y):
    wrapped = Reversed(Perturbed(func))
    for t in range(20):
        y = y + wrapped(t / 20, y) / 20
    return y

class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 2)
    def forward(self, t, y):
        return torch.tanh(self.net(y)) * t

def main():
    field = Field()
    optimizer = torch.optim.Adam(field.parameters())
    for _ in range(5):
        loss = odeint(field, torch.ones(3, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""


def test_of_a_wrapper_that_is_made_anew_at_each_call_what_it_wraps_is_recorded(bench):
    ended = recorded(bench, SOLVER)
    run = bs.open_run(bench.folder / "run")
    assert [root["name"] for root in run.tree] == ["field"]
    kinds, steps = kinds_of(bench)
    assert steps == [0, 1, 2, 3, 4]
    assert kinds["field.net.weight"] == {"weight", "grad"} and "output" in kinds["field.net.output"]
    assert last_line(ended) == "backsight: 5 steps recorded: backsight runs show run"


def test_a_wrapper_that_stays_is_the_model(bench):
    source = SOLVER.replace("field = Field()", "net = Field(); field = Reversed(net)")
    source = source.replace("wrapped = Reversed(Perturbed(func))", "wrapped = func")
    recorded(bench, source)
    assert [root["name"] for root in bs.open_run(bench.folder / "run").tree] == ["field"]


WGAN = """
import torch
from torch import nn
generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
of_generator = torch.optim.Adam(generator.parameters())
of_critic = torch.optim.Adam(critic.parameters())
for step in range(60):
    noise = torch.randn(5, 2)
    if step % 6 < 5:
        of_critic.zero_grad()
        mixed = generator(noise).detach().requires_grad_()
        gradient, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (gradient.norm(dim=1) - 1).square().mean()
        (critic(torch.randn(5, 3)).mean() - critic(mixed).mean() + penalty).backward()
        of_critic.step()
    else:
        of_generator.zero_grad()
        (-critic(generator(noise)).mean()).backward()
        of_generator.step()
"""


def test_of_two_optimizers_every_step_is_in_the_run_and_it_is_said_what_steps_are(bench):
    ended = recorded(bench, WGAN)
    run = bs.open_run(bench.folder / "run")
    note = "an audit of the recording finds 1 note"
    assert last_line(ended) == f"backsight: 14 steps (60 optimizer steps) recorded; {note}: backsight runs audit run"
    state = run.frame(kind="state", tensor="critic.weight.exp_avg", as_="numpy")
    assert len(state["step"]) == 50 and len(run.steps) == 14  # four end before the generator's optimizer is known


GROWING = """
import torch
from torch import nn

class Odd(nn.Sequential):
    def named_parameters(self, *given, **more):
        raise NotImplementedError("ask for groups")

model, odd = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Odd(nn.Linear(4, 1))
optimizer = torch.optim.SGD([*model.parameters(), *odd[0].parameters()], lr=0.1)
for step in range(4):
    if step == 2:
        model.append(nn.Linear(4, 4))
        optimizer.add_param_group({"params": model[2].parameters()})
    optimizer.zero_grad()
    odd(model(torch.ones(2, 4))).sum().backward()
    optimizer.step()
"""


def test_layers_that_come_later_and_models_that_override_their_walk_are_recorded(bench):
    assert recorded(bench, GROWING).err.splitlines()[-1] == "backsight: 4 steps recorded: backsight runs show run"
    rows = bs.open_run(bench.folder / "run").frame(as_="numpy")
    steps = {}
    for name, kind, step in zip(rows["tensor"], rows["kind"], rows["step"], strict=True):
        steps.setdefault((name, kind), []).append(int(step))
    for name, kind in (("model.2.weight", "weight"), ("model.2.output", "output"), ("model.2.bias", "grad")):
        assert steps[name, kind] == [2, 3]
    for name, kind in (("model.0.weight", "grad"), ("odd.0.weight", "grad"), ("odd.output", "output")):
        assert steps[name, kind] == [0, 1, 2, 3]


def test_what_prepares_data_is_no_model(bench):
    source = """
import torch
from torch import nn
class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(3))
    def forward(self, x):
        return x - self.mean
normalize, model = Normalize(), nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    batch = torch.stack([normalize(torch.randn(3)) for _ in range(300)])
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ended = recorded(bench, source)
    assert [root["name"] for root in bs.open_run(bench.folder / "run").tree] == ["model"]
    assert ended.err.splitlines()[1:] == ["backsight: 3 steps recorded: backsight runs show run"]


@pytest.mark.slow
def test_a_solver_that_calls_a_module_often_is_recorded_without_advice(bench):
    ended = recorded(bench, SOLVER.replace("range(20)", "range(600)"))
    assert ended.err.splitlines()[1:] == ["backsight: 5 steps recorded: backsight runs show run"]
    (told, *_) = [each for each in bs.open_run(bench.folder / "run").events if each.event == "calls left out"]
    assert told.details["recorded"] == 256


# ---- several processes and threads


FORKED = """
import multiprocessing, os
import torch
from torch import nn

def train(model, seed):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(5, 2)).square().mean().backward()
        optimizer.step()

if __name__ == "__main__":
    torch.set_num_threads(1)
    model = nn.Linear(2, 1)
    model.share_memory()
    BEFORE
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=train, args=(model, seed)) for seed in range(3)]
    for each in processes: each.start()
    for each in processes: each.join()
    print([each.exitcode for each in processes])
"""


@pytest.mark.parametrize("before", ["pass", "train(model, 7)"])
def test_processes_that_are_forked_and_train_write_parts_of_the_one_run(bench, before):
    ended = recorded(bench, FORKED.replace("BEFORE", before))
    run = bs.open_run(bench.folder / "run")
    assert ended.out == "[0, 0, 0]\n" and len(bs.runs_in(bench.folder)) == 1
    assert run.ranks == ((1, 2, 3) if before == "pass" else (0, 1, 2, 3))
    assert run.world == len(run.ranks) and run.steps.tolist() == [0, 1, 2, 3]
    for rank in run.ranks:
        held = run.frame(rank=rank, as_="numpy")
        assert {"model.weight", "model.bias"} <= set(held["tensor"]) and {"weight", "grad"} <= set(held["kind"])
    what = "4 steps of forked processes" if before == "pass" else "4 steps"
    assert last_line(ended) == f"backsight: {what} recorded: backsight runs show run"
    assert len([line for line in ended.err.splitlines() if "recorded" in line]) == 1


def test_gradients_of_a_forked_process_are_those_before_clipping_or_none(bench):
    clipped = FORKED.replace(
        "        optimizer.step()", "        model.weight.grad.mul_(1e-6)\n        optimizer.step()"
    )
    recorded(bench, clipped.replace("BEFORE", "pass"))
    run = bs.open_run(bench.folder / "run")
    for rank in run.ranks:
        held = run.frame(rank=rank, tensor="model.weight", kind="grad", as_="numpy")
        assert held["step"].tolist() == [1, 2, 3]  # of the first step, amid which recording began, nobody knows
        assert min(held["l2"]) > 1e-3


def test_parts_go_to_the_run_of_their_parent_and_not_to_an_older_one(bench):
    recorded(bench, FORKED.replace("BEFORE", "pass"))
    ended = recorded(bench, FORKED.replace("BEFORE", "pass"))
    assert bs.open_run(bench.folder / "run").ranks == bs.open_run(bench.folder / "run-2").ranks == (1, 2, 3)
    assert last_line(ended) == "backsight: 4 steps of forked processes recorded: backsight runs show run-2"


WORKERS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 3)
    def forward(self, x):
        return self.mix(x).detach()

class Data(Dataset):
    transform = Noise()
    def __len__(self): return 24
    def __getitem__(self, n): return self.transform(torch.full((3,), float(n)))

torch.set_num_threads(1)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for batch in DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
print(model.weight.sum().item())
"""


def test_workers_of_a_data_loader_record_nothing(bench):
    ended = recorded(bench, WORKERS)
    run = bs.open_run(bench.folder / "run")
    assert len(bs.runs_in(bench.folder)) == 1 and run.ranks == (0,) and len(run.steps) == 6
    assert [root["name"] for root in run.tree] == ["model"]
    assert last_line(ended) == "backsight: 6 steps recorded: backsight runs show run"


THREADS = """
import threading
import torch
from torch import nn
torch.set_num_threads(1)

def train(number):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(60):
        optimizer.zero_grad()
        model(torch.ones(16, 4)).square().mean().backward()
        optimizer.step()
    ended.append(number)

ended = []
threads = [threading.Thread(target=train, args=(n,)) for n in range(4)]
for each in threads: each.start()
for each in threads: each.join()
print(sorted(ended))
"""


@pytest.mark.parametrize("every", [1, 2, None])
@pytest.mark.slow
def test_threads_that_each_train_a_model_go_on_and_are_recorded(bench, every):
    ended = recorded(bench.to_the_end, THREADS, every=every)
    assert ended.status == 0 and ended.out == "[0, 1, 2, 3]\n" and "Error" not in ended.err, ended.err
    kinds, steps = kinds_of(bench)
    models = {name.split(".")[0] for name in kinds}
    assert models >= {"model", "model_2", "model_3", "model_4"} and len(steps) > (10 if every else 0)
    assert "no longer recorded" not in ended.err


SCRIPTED = """
import copy, io, pickle, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    return len(file.getvalue()), len(pickle.dumps(copy.deepcopy(model)))

model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
x = torch.randn(16, 4)
traced = torch.jit.trace(model, x)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step == 3:
        scripted, graph = torch.jit.script(model), torch.fx.symbolic_trace(model)
        print(scripted(x).sum().item(), graph(x).sum().item(), len(list(graph.graph.nodes)))
    print(saved(model))
    optimizer.step()
print(traced(x).sum().item(), [name for name, _ in model.named_modules()], len(model.state_dict()))
print(*(table for module in model.modules() for table, held in vars(module).items() if "hook" in table and held))
with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.BatchNorm1d, nn.ReLU]):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    print(torch.load(file, weights_only=True))
"""


def test_a_model_that_is_recorded_is_scripted_traced_copied_and_saved_as_without(bench):
    ended = recorded(bench, SCRIPTED)
    assert (ended.status, ended.out) == (0, bench.python("train.py").out), ended.err
    assert bs.open_run(bench.folder / "run").steps.tolist() == [0, 1, 2, 3, 4, 5]

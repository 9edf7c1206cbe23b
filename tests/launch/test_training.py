"""`backsight run`: unmodified training scripts, audited in their first steps and explained when they fail."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

LOOP = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    loss = (model(torch.randn(16, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(*(p.double().sum().item() for p in model.parameters()))
"""

QUIET = "backsight: nothing found in 5 optimizer steps: checked how 3 of their losses were computed\n"


def observed(bench, source, *options, **more):
    bench.write("train.py", source)
    return bench.observed(*options, "train.py", **more)


def said(ended):
    """What backsight added to stderr."""
    return re.split(r"backsight (?:found|explains)\n-+\n", ended.err)[-1]


@pytest.mark.process
def test_a_healthy_script_gets_one_line(bench):
    ended = observed(bench, LOOP)
    assert (ended.status, ended.err) == (0, QUIET)
    assert ended.out == bench.forked.python("train.py").out  # the weights are bit-identical


def test_an_audit_does_not_import_what_numpy_leaves_for_later(bench):
    source = LOOP.replace("range(5)", "range(40)") + "import sys\nprint('numpy.ma' in sys.modules)\n"
    assert observed(bench, source).out.endswith("\nFalse\n")


def test_and_none_when_asked_to_be_quiet(bench):
    assert observed(bench, LOOP, "--quiet").err == ""


@pytest.mark.process
def test_a_script_without_torch_is_left_alone(bench):
    ended = observed(bench, "import sys\nprint('torch' in sys.modules, sys.argv)\nsys.exit(3)", flags=("-W", "error"))
    assert (ended.status, ended.out, ended.err) == (3, "False ['train.py']\n", "")


@pytest.mark.process
def test_a_script_that_imports_torch_late_and_in_a_function_is_observed(bench):
    body = "".join(f"    {line}\n" for line in LOOP.strip().splitlines())
    assert observed(bench, f"def main():\n{body}\nmain()\n").err == QUIET


@pytest.mark.process
def test_a_module_is_run_as_python_does(bench):
    bench.write("package/__init__.py", "")
    bench.write("package/data.py", "SIZE = 4")
    bench.write("package/train.py", LOOP.replace("import torch\n", "import torch\nfrom .data import SIZE\n", 1))
    assert bench.observed("-m", "package.train").err == QUIET


@pytest.mark.process
def test_an_error_is_explained_below_the_traceback_and_the_status_stays(bench):
    bench.write("train.py", (EXAMPLES / "broken" / "01_second_backward_rnn.py").read_text())
    plain, ended = bench.forked.python("train.py"), bench.observed("train.py")
    assert ended.status == plain.status == 1
    assert ended.err.startswith(plain.err)
    assert "train.py:38  logits, hidden = model(window[:, :-1], hidden)" in said(ended)
    assert "hidden = hidden.detach()" in said(ended)


def test_an_error_that_is_not_of_autograd_is_told_with_its_tensors(bench):
    source = "import torch\ntorch.nn.Linear(4, 1)(torch.randn(8, 5))"
    ended = observed(bench, source)
    assert ended.status == 1
    assert bench.python("train.py").err.splitlines()[-1] in ended.err.splitlines()  # torch's own frames differ
    assert "error BS200" in said(ended) and "8×5" in said(ended)


def test_output_in_a_file_has_no_colour_and_no_trailing_spaces(bench):
    ended = observed(bench, (EXAMPLES / "broken" / "18_forgotten_leaf.py").read_text(), env={"FORCE_COLOR": ""})
    assert "\x1b" not in ended.err and not re.search(r" \n", ended.err)
    assert "delta requires grad, but no optimizer updates it." in said(ended)


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("18_forgotten_leaf.py", "BS101  delta requires grad"),
        ("19_stale_gradients.py", "gradients have not been zeroed since self.optimizer.step()"),
        ("20_overwritten_leaf.py", "delta (overwritten) is a leaf that no variable holds anymore"),
        ("21_detached_branch.py", "BS102  "),
    ],
)
def test_scripts_that_run_and_learn_nothing(bench, example, words):
    ended = observed(bench, (EXAMPLES / "broken" / example).read_text())
    assert ended.status == 0 and words in said(ended)


def test_a_derivative_inside_the_forward_pass_is_not_taken_for_the_step(bench):
    source = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    x = torch.rand(5, 1, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    loss = (slope - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert "gradients have not been zeroed" not in observed(bench, source).err


@pytest.mark.process
@pytest.mark.slow
def test_a_compiled_model_is_observed_without_a_warning(bench):
    source = LOOP.replace("for step", "compiled = torch.compile(model, backend='aot_eager')\nfor step")
    source = source.replace("model(torch.randn", "compiled(torch.randn")
    ended = observed(bench, source, flags=("-W", "error:Using:UserWarning"))
    said = [line for line in ended.err.splitlines() if line.startswith("backsight: ")]  # dynamo may warn of this Python
    assert ended.status == 0 and len(said) == 1
    assert said[0].startswith(QUIET.rstrip())


def test_a_failure_of_ours_is_one_line_and_not_the_end(bench):
    source = LOOP.replace(
        "for step",
        "import backsight.launch.first_steps as ours\n"
        "def fail(*args, **options): raise ValueError('inside backsight')\n"
        "ours.audit_at = fail\n"
        "for step",
    )
    ended = observed(bench, source)
    assert ended.status == 0 and ended.out
    assert ended.err == "backsight: audits stopped: ValueError: inside backsight\n"


FROZEN = LOOP.replace("for step", "model[0].requires_grad_(False)\nfor step", 1)


def test_what_is_only_worth_knowing_is_counted(bench):
    assert observed(bench, FROZEN).err.startswith(
        "backsight: nothing found in 5 optimizer steps, but 1 note, BS109 (--notes shows it): checked how 3 of "
        "their losses "
    )


def test_and_shown_when_asked_for(bench):
    ended = observed(bench, FROZEN, "--notes")
    assert said(ended).startswith("note BS109  2 of the 4 parameters in optimizer are frozen.")


def test_an_optimizer_of_what_the_program_unfreezes_later_is_in_order(bench):
    """As a fix of BS101 has it."""
    loop = "for step in range(5):\n"
    unfrozen = FROZEN.replace(loop, f"{loop}    if step == 2:\n        model[0].requires_grad_(True)\n")
    assert unfrozen != FROZEN
    assert observed(bench, unfrozen, "--notes").err.startswith("backsight: nothing found in 5 optimizer steps: ")


PLAIN = """
import torch

w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = (w * 2).sum()
    loss.backward()
    optimizer.step()
"""


def test_a_training_without_modules_is_audited_at_its_steps(bench):
    assert observed(bench, PLAIN).err == QUIET


@pytest.mark.process
def test_a_script_that_first_asks_whether_torch_is_there_is_observed(bench):
    asking = "import importlib.util\nprint(importlib.util.find_spec('torch').loader.get_filename())\n"
    ended = observed(bench, asking + PLAIN)
    assert (ended.out, ended.err) == (bench.forked.python("train.py").out, QUIET)


def test_hooks_of_the_script_on_every_optimizer_step_go_on(bench):
    hook = """
from torch.optim.optimizer import register_optimizer_step_pre_hook
register_optimizer_step_pre_hook(lambda *_: print('step'))
"""
    ended = observed(bench, hook + PLAIN)
    assert (ended.status, ended.out, ended.err) == (0, "step\n" * 5, QUIET)


def test_a_loss_that_is_never_to_be_seen_is_looked_for_a_few_times_only(bench):
    source = """
import torch
import backsight.launch.first_steps as ours

looks, look = [], ours.newest_loss
ours.newest_loss = lambda: looks.append(look()) or looks[-1]
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)

def backward():
    (w * 2).sum().backward()

for _ in range(50):
    backward()
    optimizer.step()
print(looks)
"""
    ended = observed(bench, source)
    assert ended.out == f"{[None] * 8}\n"
    assert ended.err.startswith("backsight: 50 optimizer steps; no loss was checked (")


def test_outputs_of_an_odd_class_are_left_alone(bench):
    source = """
import torch

class Odd(torch.Tensor):
    @property
    def grad_fn(self): raise RuntimeError("asked")
    def register_hook(self, hook): raise RuntimeError("asked")

model = torch.nn.Linear(2, 1)
print(model(torch.ones(1, 2).as_subclass(Odd)).shape)
"""
    assert observed(bench, source, "--quiet") == bench.python("train.py")


@pytest.mark.process
def test_an_output_is_saved_and_overridden_as_without_us(bench):
    source = """
import io, torch
from torch.overrides import TorchFunctionMode

class Calls(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), options=None):
        print(function.__name__)
        return function(*args, **(options or {}))

model = torch.nn.Linear(2, 1)
with Calls():
    output = model(torch.ones(1, 2))
torch.save(output, io.BytesIO())
output.sum().backward()
"""
    ended = observed(bench, source, "--quiet", flags=("-W", "error"))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == bench.python("train.py").out


def test_each_backward_of_a_program_is_audited_also_with_several_optimizers(bench):
    source = """
import torch
a, b = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (a, b)]
for _ in range(6):
    a(torch.randn(4, 2)).square().mean().backward()
    optimizers[0].step()
    b(torch.randn(4, 2)).square().mean().backward()
    optimizers[1].step()
"""
    found = said(observed(bench, source))
    assert "2 gradients have not been zeroed since optimizers[0].step()." in found
    assert "2 gradients have not been zeroed since optimizers[1].step()." in found


LEAK = (
    LOOP.replace("optimizer.step()", "optimizer.step()\n    kept.append(loss)")
    .replace("for step", "kept = []\nfor step")
    .replace("range(5)", "range(8)")
)


@pytest.mark.process
def test_leaks_are_looked_for_when_asked(bench):
    ended = observed(bench, LEAK, "--leaks")
    assert ended.status == 0
    assert said(ended).startswith("warning BS111  kept holds the graphs of more and more steps.")
    assert (
        "still attached to its graph.\n  fix: kept.append(loss.item()), which keeps the number and drops the graph."
        in said(ended)
    )
    assert "BS111" not in observed(bench.forked, LEAK).err


def test_a_leak_is_told_too_when_the_program_fails(bench):
    ended = observed(bench, LEAK + "raise MemoryError('too much')\n", "--leaks")
    assert ended.status == 1
    assert "MemoryError: too much" in ended.err and "warning BS111  kept holds" in said(ended)


def test_what_grows_is_told_once(bench):
    source = """
import torch

model, average = torch.nn.Linear(4, 1), torch.zeros(())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    average = 0.9 * average + 0.1 * (model(torch.randn(16, 4)) - 1).square().mean()
    optimizer.zero_grad()
    average.backward(retain_graph=True)
    optimizer.step()
"""
    alone, longer = observed(bench, source), observed(bench, source, "--leaks")
    assert [code for code in ("BS110", "BS111") if code in alone.err] == ["BS110"]
    assert [code for code in ("BS110", "BS111") if code in longer.err] == ["BS111"]
    for ended in (alone, longer):
        assert "keeps both graphs.\n  fix: Detach it at the start of each step: average = average.detach().\n" in said(
            ended
        )


LOST = LOOP.replace("range(5)", "range(9)").replace(
    "    optimizer.zero_grad", "    loss = loss * (1.0 if step < 6 else torch.nan)\n    optimizer.zero_grad"
)


@pytest.mark.parametrize(("inside", "what"), [(False, "model.0.weight and 3 more hold"), (True, "model.2.bias holds")])
def test_weights_that_were_lost_after_the_audits_are_told_at_the_end(bench, inside, what):
    body = "".join(f"    {line}\n" for line in LOST.strip().splitlines())
    found = said(observed(bench, f"def main():\n{body}\nmain()\n" if inside else LOST))
    assert found == (
        f"warning BS108  {what} NaN at the end.\n"
        "  The weights have been NaN since step 6.\n"
        "  The losses of the first steps, which were looked at closely, had no NaN in them.\n"
        "  fix: Run it again: `backsight run --nonfinite train.py`. It names the line that produces the first NaN.\n"
    )


def test_and_not_where_their_origin_was_told(bench):
    assert "BS108" not in observed(bench, LOST, "--nonfinite").err
    early = observed(bench, LOST.replace("step < 6", "step < 1")).err
    assert "BS108" in early and "at the end" not in early


def test_weights_that_are_lost_long_before_a_later_look_have_the_step_of_their_loss(bench):
    late = LOOP.replace("range(5)", "range(320)").replace(
        "    optimizer.zero_grad", "    loss = loss * (torch.nan if step == 200 else 1.0)\n    optimizer.zero_grad"
    )
    found = said(observed(bench, late))
    assert (
        found.startswith("warning BS108  model.0.weight and 3 more hold NaN at the end.\n")
        and "since step 200." in found
    )
    assert found.count("BS108") == 1


def test_infinite_weights_and_those_of_no_optimizer_may_be_meant(bench):
    assert observed(bench, LOOP + "model[0].bias.data[0] = -torch.inf\n").err == QUIET
    assert observed(bench, LOOP + "table = torch.full((3,), torch.nan)\n").err == QUIET

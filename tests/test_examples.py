"""The examples do what they say: digits learns, each broken program fails as its docstring tells, its fix fixes."""

import ast
import random
import re
import subprocess
import sys
from pathlib import Path

import fresh
import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"
BROKEN = EXAMPLES / "broken"

SECOND_BACKWARD = "Trying to backward through the graph a second time"
IN_PLACE = "one of the variables needed for gradient computation has been modified by an inplace operation"
NO_GRAD = "element 0 of tensors does not require grad and does not have a grad_fn"

# What PyTorch says, for each program that raises.
RAISES = {
    "01_second_backward_rnn.py": SECOND_BACKWARD,
    "02_second_backward_outside_loop.py": SECOND_BACKWARD,
    "03_second_backward_twice.py": SECOND_BACKWARD,
    "04_inplace_saved.py": IN_PLACE,
    "05_inplace_residual.py": IN_PLACE,
    "06_inplace_optimizer_step.py": IN_PLACE,
    "07_no_grad_argmax.py": NO_GRAD,
    "08_no_grad_item.py": NO_GRAD,
    "09_no_grad_block.py": NO_GRAD,
    "10_leaf_inplace.py": "a leaf Variable that requires grad is being used in an in-place operation",
    "11_nonleaf_optimizer.py": "can't optimize a non-leaf Tensor",
    "12_custom_function_count.py": (
        "function SlopedReLUBackward returned an incorrect number of gradients (expected 2, got 1)"
    ),
    "13_custom_function_shape.py": (
        "returned an invalid gradient at index 1 - got [20, 5] but expected shape compatible with [5, 20]"
    ),
    "14_view_inplace.py": "is a view and is being modified inplace",
    "15_unused_grad.py": "appears to not have been used in the graph",
    "16_checkpoint_mismatch.py": (
        "A different number of tensors was saved during the original forward and recomputation"
    ),
    "17_ddp_unused.py": "Expected to have finished reduction in the prior iteration before starting a new one",
}

# What the program itself prints, where PyTorch says nothing: the sign that it trained wrongly.
SILENT = {
    "18_forgotten_leaf.py": "offset learned 0.000, true offset 2.000",
    "19_stale_gradients.py": "the loss rose in 20 of 39 steps",
    "20_overwritten_leaf.py": "prior learned 0.333, 0.333, 0.333",
    "21_detached_branch.py": "text_tower.weight moved by 0.000",
}

# The fix of each docstring as an edit of the program: pairs of (wrong, right).
FIXES = {
    "01_second_backward_rnn.py": [("optimizer.step()\n", "optimizer.step()\n        hidden = hidden.detach()\n")],
    "02_second_backward_outside_loop.py": [
        (
            "    image_vectors =",
            "    class_vectors = F.normalize(label_encoder(descriptions), dim=-1)\n    image_vectors =",
        )
    ],
    "03_second_backward_twice.py": [("discriminator(fake), zeros", "discriminator(fake.detach()), zeros")],
    "04_inplace_saved.py": [("gates[:, 0] = 0", "gates = gates * (torch.arange(gates.shape[1]) > 0)")],
    "05_inplace_residual.py": [("out += shortcut", "out = out + shortcut")],
    "06_inplace_optimizer_step.py": [
        ("        g_loss = -discriminator(fake).mean()\n", ""),
        ("d_optimizer.step()\n", "d_optimizer.step()\n        g_loss = -discriminator(fake).mean()\n"),
    ],
    "07_no_grad_argmax.py": [("F.mse_loss(predicted.float(), labels.float())", "F.cross_entropy(logits, labels)")],
    "08_no_grad_item.py": [
        ("small_target).item())", "small_target))"),
        ("torch.tensor(losses).mean()", "torch.stack(losses).mean()"),
    ],
    "09_no_grad_block.py": [("            logits =", "        logits =")],
    "10_leaf_inplace.py": [
        ("    w -= lr * w.grad\n", "    with torch.no_grad():\n        w -= lr * w.grad\n"),
        ("    b -= lr * b.grad\n", "        b -= lr * b.grad\n"),
    ],
    "11_nonleaf_optimizer.py": [
        (
            "torch.randn(num_users, rank, requires_grad=True) * 0.1",
            "(torch.randn(num_users, rank) * 0.1).requires_grad_()",
        ),
        (
            "torch.randn(num_items, rank, requires_grad=True) * 0.1",
            "torch.nn.Parameter(torch.randn(num_items, rank) * 0.1)",
        ),
    ],
    "12_custom_function_count.py": [("ctx.slope * grad_output)", "ctx.slope * grad_output), None")],
    "13_custom_function_shape.py": [("x.T @ grad_output", "grad_output.T @ x")],
    "14_view_inplace.py": [("width.exp_()", "width = width.exp()"), ("height.exp_()", "height = height.exp()")],
    "15_unused_grad.py": [
        ("network(x)", "network(torch.cat([x, t], dim=1))"),
        ("nn.Linear(1, 32)", "nn.Linear(2, 32)"),
    ],
    "16_checkpoint_mismatch.py": [("random.random() < self.drop_rate", "torch.rand(()) < self.drop_rate")],
    "17_ddp_unused.py": [
        (
            "(8,)))\n",
            "(8,)))\n        loss = loss + 0.4 * F.cross_entropy(auxiliary_logits, torch.randint(0, 4, (8,)))\n",
        )
    ],
    "18_forgotten_leaf.py": [("SGD(model.parameters(),", "SGD([*model.parameters(), delta],")],
    "19_stale_gradients.py": [
        ("        loss.backward()", "        self.optimizer.zero_grad()\n        loss.backward()")
    ],
    "20_overwritten_leaf.py": [
        ("    delta = delta - delta.mean()  # only differences count\n", ""),
        ("model(x) + delta\n", "model(x) + (delta - delta.mean())\n"),
    ],
    "21_detached_branch.py": [("dim=-1).detach()", "dim=-1)")],
}


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script under plain Python; the timeout only keeps a hanging one from blocking the suite."""
    return fresh.run([sys.executable, str(script), *arguments], timeout=120, torn_down=False)


def final_error(stderr: str) -> str:
    """The message of the last exception in `stderr`: messages may span lines, and DDP prefixes each with its rank."""
    starts = list(re.finditer(r"^(?:\[rank\d+\]: )?[\w.]+Error: ", stderr, re.MULTILINE))
    assert starts, f"no exception in:\n{stderr}"
    return stderr[starts[-1].start() :]


def docstring(script: Path) -> str:
    """The docstring of a script with its line breaks and indentation folded to single spaces."""
    return " ".join((ast.get_docstring(ast.parse(script.read_text())) or "").split())


def test_digits_learns_to_read_digits():
    result = run(EXAMPLES / "digits.py")

    assert result.returncode == 0, result.stderr
    *epochs, last = result.stdout.splitlines()
    losses = [float(line.split()[-1]) for line in epochs]
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 5
    assert float(last.removeprefix("test accuracy ")) > 0.95


def test_digits_takes_the_number_of_epochs():
    result = run(EXAMPLES / "digits.py", "--epochs", "1")

    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["epoch", "test"]


def test_digits_is_an_ordinary_script():
    assert "backsight" not in (EXAMPLES / "digits.py").read_text()


@pytest.mark.slow
def test_the_study_of_release_finds_that_only_the_late_bound_hook_differs():
    result = run(EXAMPLES / "release_study.py", "--small")

    assert result.returncode == 0, result.stderr
    verdicts = ("bit-identical", "different")
    rows = [line.split() for line in result.stdout.splitlines() if line.rstrip().endswith(verdicts)]
    assert len(rows) == 10
    late_bound = [row for row in rows if "late" in row]
    assert [row[-4:] for row in late_bound] == [["1", "of", "4", "different"], ["1", "of", "53", "different"]]
    others = [row for row in rows if "late" not in row]
    assert all(row[-1] == "bit-identical" and row[-2] == row[-4] for row in others)  # all tensors moved


def test_backward_at_a_linear_layer_is_three_products():
    result = run(EXAMPLES / "linear_backward.py")

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "layer 0: weight.grad is the sum of 5 outer products, bias.grad the sum of the error signals; "
        "x asks for no gradient",
        "layer 2: weight.grad is the sum of 5 outer products, bias.grad the sum of the error signals, "
        "and error signal times W is passed on",
    ]


@pytest.mark.slow
def test_a_backward_by_hand_is_proven_and_learns_to_read_digits():
    result = run(EXAMPLES / "manual_backprop.py")

    assert result.returncode == 0, result.stderr
    proven, accuracy = result.stdout.splitlines()
    assert proven == "the gradients of 0.weight, 0.bias, 2.weight, 2.bias are those of autograd"
    assert float(accuracy.removeprefix("test accuracy ")) > 0.95


def test_a_mistake_in_a_backward_by_hand_is_explained():
    result = run(EXAMPLES / "manual_backprop.py", "--wrong")

    assert result.returncode == 1
    assert "The manual backward of Linear returns 1/32 times the right gradient for `weight`." in result.stderr


def test_every_broken_program_is_in_the_tables():
    scripts = {script.name for script in BROKEN.glob("*.py")}

    assert scripts == RAISES.keys() | SILENT.keys()
    assert scripts == FIXES.keys()
    assert not RAISES.keys() & SILENT.keys()


@pytest.mark.parametrize("name", RAISES)
def test_program_ends_with_the_error_that_pytorch_gives(name):
    result = run(BROKEN / name)

    assert result.returncode == 1
    assert RAISES[name] in final_error(result.stderr)


@pytest.mark.parametrize("name", SILENT)
def test_program_trains_wrongly_without_a_word_from_pytorch(name):
    result = run(BROKEN / name)

    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert SILENT[name] in result.stdout.splitlines()


@pytest.mark.parametrize("name", FIXES)
def test_the_fix_fixes(name, capsys):
    _, _, source = (BROKEN / name).read_text().split('"""', 2)  # the docstring quotes the code, too
    for wrong, right in FIXES[name]:
        assert source.count(wrong) == 1
        source = source.replace(wrong, right)

    state = random.getstate()
    with torch.random.fork_rng():
        exec(compile(source, str(BROKEN / name), "exec"), {"__name__": "__main__"})
    random.setstate(state)

    if name in SILENT:
        assert SILENT[name] not in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", [*RAISES, *SILENT])
def test_docstring_tells_what_is_wrong_what_pytorch_says_and_the_fix(name):
    text = docstring(BROKEN / name)
    says = RAISES.get(name, "nothing")

    assert re.search(rf"\. What is wrong: .+\. PyTorch says: {re.escape(says)} Fix: .+", text)


def test_readme_lists_every_program_with_what_is_said():
    rows = re.findall(r"^\| `(\w+\.py)` \| .+ \| (.+) \|$", (BROKEN / "README.md").read_text(), re.MULTILINE)

    assert dict(rows) == RAISES | SILENT
    assert len(rows) == len(RAISES) + len(SILENT)

"""The acceptance test: what is said of each program in `examples/broken` that raises."""

import random
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import backsight as bs

BROKEN = Path(__file__).parents[2] / "examples" / "broken"

# For each program: the code, the statement that matters most, what the title says, and what the fix says.
SAID = {
    "01_second_backward_rnn.py": (
        "BS201",
        "logits, hidden = model(window[:, :-1], hidden)",
        "hidden, a tensor of shape 1×1×32, carries the graph of one iteration into the next",
        "hidden = hidden.detach()",
    ),
    "02_second_backward_outside_loop.py": (
        "BS201",
        "class_vectors = F.normalize(label_encoder(descriptions), dim=-1)",
        "class_vectors is computed once, before the loop",
        "`class_vectors = F.normalize(label_encoder(descriptions), dim=-1)`, inside the loop at line",
    ),
    "03_second_backward_twice.py": (
        "BS201",
        "d_fake = F.binary_cross_entropy_with_logits(self.discriminator(fake), zeros)",
        "d_loss.backward() freed the part of the graph behind fake",
        "Compute d_loss from fake.detach()",
    ),
    "04_inplace_saved.py": ("BS202", "gates[:, 0] = 0", "gates", "gates"),
    "05_inplace_residual.py": ("BS202", "out += shortcut", "out", "out = out + shortcut"),
    "06_inplace_optimizer_step.py": ("BS202", "d_optimizer.step()", "d_optimizer.step()", "g_loss"),
    "07_no_grad_argmax.py": (
        "BS203",
        "predicted = logits.argmax(dim=1)",
        "logits.argmax(dim=1) detached it from the graph",
        "torch.nn.functional.cross_entropy(logits, labels)",
    ),
    "08_no_grad_item.py": (
        "BS203",
        "return torch.tensor(losses).mean()",
        "torch.tensor(losses) creates a new tensor, detached from the model",
        "Remove .item() there, so losses holds tensors with their graphs, and replace torch.tensor(losses)",
    ),
    "09_no_grad_block.py": (
        "BS203",
        "with torch.no_grad():",
        "it was computed under torch.no_grad()",
        "End the block before line 22: dedent line 22, `logits = self.head(features)`.",
    ),
    "10_leaf_inplace.py": ("BS205", "w -= lr * w.grad", "w", "with torch.no_grad()"),
    "11_nonleaf_optimizer.py": (
        "BS206",
        "user_factors = torch.randn(num_users, rank, requires_grad=True) * 0.1",
        "user_factors and item_factors are non-leaf tensors",
        "and on line 16, write `item_factors = (torch.randn(num_items, rank) * 0.1).requires_grad_()`.",
    ),
    "12_custom_function_count.py": ("BS207", "return torch.where(x > 0, grad_output", "SlopedReLU", "None"),
    "13_custom_function_shape.py": ("BS208", "grad_weight = x.T @ grad_output", "LinearFunction", "grad_output.T @ x"),
    "14_view_inplace.py": ("BS209", "width.exp_()", "width", "width = width.exp()"),
    "15_unused_grad.py": (
        "BS204",
        "u = network(x)",
        "u does not depend on t: t is not used to compute it.",
        "Compute u from t too",
    ),
    "16_checkpoint_mismatch.py": (
        "BS210",
        "if self.training and random.random() < self.drop_rate:",
        "(a StochasticBlock) computed something different when checkpoint reran it",
        "on line 25, write `if self.training and torch.rand(()) < self.drop_rate:`",
    ),
    "17_ddp_unused.py": (
        "BS211",
        "logits, auxiliary_logits = model(torch.randn(8, 16))",
        "auxiliary (2 parameters) got no gradient",
        "Use auxiliary_logits in loss, or remove auxiliary from the model.",
    ),
}

SCRIPT = """
import sys
import backsight
with backsight.explaining():
    exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), {"__name__": "__main__"})
"""


def finding_of(name: str) -> bs.Finding:
    state = random.getstate()
    try:
        with torch.random.fork_rng():
            runpy.run_path(str(BROKEN / name), run_name="__main__")
    except Exception as error:
        return bs.explain(error)
    finally:
        random.setstate(state)
    raise AssertionError(f"{name} ended without an error")


@pytest.mark.parametrize("name", [name for name in SAID if "ddp" not in name])
def test_names_the_variable_the_line_and_the_fix(name):
    code, statement, title, fix = SAID[name]
    finding = finding_of(name)
    lines = (BROKEN / name).read_text().splitlines()
    assert finding.code == code
    assert finding.severity == "error"
    assert title in finding.title
    assert fix in finding.fix
    file, _, line = finding.source.rpartition(":")
    assert file.endswith(name)
    assert statement in lines[int(line) - 1]


@pytest.mark.skipif(not hasattr(BaseException, "add_note"), reason="Python prints notes of exceptions from 3.11 on")
def test_names_them_for_the_program_with_processes_too():
    name = "17_ddp_unused.py"
    code, statement, title, fix = SAID[name]
    said = subprocess.run(
        [sys.executable, "-c", f"{SCRIPT}", str(BROKEN / name)], capture_output=True, text=True, timeout=120
    ).stderr
    words = " ".join(said.replace("[rank0]:", " ").split())
    line = next(number for number, text in enumerate((BROKEN / name).read_text().splitlines(), 1) if statement in text)
    assert code in words
    assert title in words
    assert fix in words
    assert f"> {name}:{line} " in words


def test_every_program_that_raises_is_in_the_table():
    raising = {each.name for each in BROKEN.glob("*.py") if int(each.name[:2]) <= 17}
    assert raising == SAID.keys()


@pytest.mark.parametrize("name", ["01_second_backward_rnn.py", "07_no_grad_argmax.py", "15_unused_grad.py"])
def test_every_line_of_evidence_quotes_the_program(name):
    finding = finding_of(name)
    lines = (BROKEN / name).read_text().splitlines()
    quoted = [each.partition("  ") for each in map(str, finding.evidence) if each.startswith(name)]
    assert quoted
    for place, _, rest in quoted:
        assert rest.splitlines()[0] in lines[int(place.rpartition(":")[2]) - 1]

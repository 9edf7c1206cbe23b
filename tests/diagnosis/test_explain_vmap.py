"""BS226: which statement of a function under vmap cannot run for all samples at once."""

import pytest
import torch
from columns import needs_columns
from failures import at, evidence, explained, failing

import backsight as bs

BUFFERS = {  # the statement that makes the buffer, and the same for each sample
    "out = torch.zeros(3)": "out = x.new_zeros(3)",
    "out = torch.full((3,), 2.0)": "out = x.new_full((3,), 2.0)",
    "out = torch.empty(3, dtype=torch.float64)": "out = x.new_empty(3, dtype=torch.float64)",
    "out = torch.zeros_like(torch.ones(3))": "out = torch.zeros_like(x)",
    "out = torch.eye(3)[0].clone()": "out = torch.eye(3)[0].clone() + x.new_zeros(())",
    "out = torch.linspace(0, 1, 3)": "out = torch.linspace(0, 1, 3) + x.new_zeros(())",
}
WRITES = ["out[1] = x[0]", "out[:2] = x[:2]", "out.copy_(x)", "out += x", "out[1].add_(x[0])"]


def program(made, write):
    return f"def f(x):\n    {made}  # here\n    {write}\n    return out\ntorch.vmap(f)(torch.ones(4, 3))\n"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", BUFFERS)
def test_the_buffer_is_made_from_the_sample(made, write):
    finding = explained(program(made, write))
    assert finding.code == "BS226"
    assert finding.title == "out is one tensor for all samples, but each sample writes its own values into it."
    assert finding.source == at(program(made, write))
    assert BUFFERS[made] in finding.fix
    exec(program(BUFFERS[made], write), {"torch": torch})


def test_the_same_text_without_vmap_is_none_of_these():
    assert bs.explain(failing("torch.zeros(3).add_(torch.ones(4, 3))")).code == "BS200"


def test_a_buffer_from_outside_is_told_as_such():
    source = (
        "out = torch.zeros(3)\ndef f(x):\n    out[0] = x[0]  # here\n    return out\ntorch.vmap(f)(torch.ones(4, 3))"
    )
    finding = explained(source)
    assert finding.title.startswith("out comes from outside the mapped function")
    assert finding.source == at(source)


RANDOM = {
    "torch.vmap(f)(torch.ones(4, 3))  # here": 'torch.vmap(f, randomness="different").',
    "many = torch.vmap(f, in_dims=0)  # here\nmany(torch.ones(4, 3))": "torch.vmap(f, in_dims=0, ra",
    "torch.func.jacfwd(f)(torch.ones(3))  # here": 'vmap(..., randomness="different").',
}


@pytest.mark.parametrize("call", RANDOM)
def test_random_numbers_are_told_with_the_call_that_maps(call):
    source = f"def f(x):\n    return x * torch.rand(3)\n{call}"
    finding = explained(source)
    assert finding.source == at(source)
    assert f"To draw different numbers per sample: {RANDOM[call]}" in finding.fix
    assert "return x * torch.rand(3)\n    draws random numbers." in evidence(finding)


ON_ONE_LINE = "if x[0] > 1: return x\n    return x * 2"

FLOW = {
    "return x if x.sum() > 0 else -x": ("x.sum() > 0", "torch.where(x.sum() > 0, x, -x)"),
    "if x[0] > 1:\n        return x\n    return x * 2": ("x[0] > 1", "torch.where(x[0] > 1, x, x * 2)"),
    "if x[0] > 1:\n        return x\n    else:\n        return 2 * x": ("x[0] > 1", "torch.where(x[0] > 1, x, 2 * x)"),
    ON_ONE_LINE: ("x[0] > 1", "torch.where(x[0] > 1, x, x * 2)"),
    "while x.norm() > 1:\n        x = x / 2\n    return x": ("x.norm() > 1", "Run a fixed number of steps"),
    "assert x.min() >= 0\n    return x": ("x.min() >= 0", "Check it outside"),
    "return max(x[0], x[1])": ("max(x[0], x[1])", "torch.maximum(a, b)"),
}


@pytest.mark.parametrize(
    "body", [pytest.param(body, marks=needs_columns) if body == ON_ONE_LINE else body for body in FLOW]
)
def test_a_branch_on_a_value_is_shown_with_both_sides(body):
    source = f"def f(x):\n    {body}\ntorch.vmap(f)(torch.ones(4, 3) * 3)"
    finding = explained(source)
    condition, fix = FLOW[body]
    assert finding.title == f"A branch depends on {condition}, which has one value per sample under vmap."
    assert fix in finding.fix
    assert finding.exact


NUMBERS = {
    "return x * x.sum().item()": "Keep the tensor: x.sum() instead of x.sum().item().",
    "return x * float(x[0] + x[1])": "Keep the tensor: (x[0] + x[1]) instead of float(x[0] + x[1]).",
    "return torch.eye(3)[int(x[0])]": (
        "Index with the tensor: on line 2, write `return torch.eye(3).index_select(0, x[0].reshape(1))[0]`."
    ),
    "return sum(x for _ in range(int(x[0])))": "Loop over a number that is the same for all samples",
}


@pytest.mark.parametrize("body", NUMBERS)
def test_a_number_that_is_read_is_kept_a_tensor(body):
    finding = explained(f"def f(x):\n    {body}  # here\ntorch.vmap(f)(torch.ones(4, 3))")
    assert finding.code == "BS226"
    assert NUMBERS[body] in finding.fix


def test_a_mask_is_replaced_by_where():
    finding = explained("def f(x):\n    return x[x > 0].sum()\ntorch.vmap(f)(torch.ones(4, 3))")
    assert "torch.where(mask, x, 0), with mask = x > 0" in finding.fix


BRANCHES = {  # the function's statements, and those without a branch
    "r = x.norm()\n    if r > 1:\n        x = x / r\n    return x": (
        "r = x.norm()\n    x = torch.where(r > 1, x / r, x)\n    return x"
    ),
    "r = x.norm()\n    if not r > 1:\n        r = r * 2\n    else:\n        r = r / 2\n    return r": (
        "r = x.norm()\n    r = torch.where(~(r > 1), r * 2, r / 2)\n    return r"
    ),
    "r = x.norm()\n    if 0 < r < 1:\n        r += 1\n        x *= 2\n    return r * x": (
        "r = x.norm()\n    r = torch.where((0 < r) & (r < 1), r + 1, r)\n    "
        "x = torch.where((0 < r) & (r < 1), x * 2, x)\n    return r * x"
    ),
    "r = x.norm()\n    y = r if r > 1 else 1 / r\n    return y": (
        "r = x.norm()\n    y = torch.where(r > 1, r, 1 / r)\n    return y"
    ),
}


@pytest.mark.parametrize("body", BRANCHES)
def test_a_branch_becomes_a_selection_that_gives_the_same(body):
    finding = explained(f"def f(x):\n    {body}\ntorch.vmap(f)(torch.ones(4, 3))\n")
    lines = [line.strip() for line in BRANCHES[body].splitlines() if "torch.where" in line]
    if "r += 1" in body:  # the condition would be another after the first of the two
        assert "for each result" in finding.fix
        return
    assert all(f"`{line}`" in finding.fix for line in lines)
    names = {"torch": torch}
    exec(f"def f(x):\n    {body}\ndef g(x):\n    {BRANCHES[body]}\n", names)
    samples = torch.randn(6, 3)
    mapped = torch.vmap(names["g"])(samples)
    assert torch.allclose(mapped, torch.stack([names["f"](each.clone()) for each in samples]))


def test_a_branch_that_does_more_than_assign_is_told_without_lines():
    body = "    if x.sum() > 0:\n        print(x)\n        x = x * 2\n    return x\n"
    assert explained(f"def f(x):\n{body}torch.vmap(f)(torch.ones(4, 3))").fix == (
        "Compute both branches and select, for each result: torch.where(x.sum() > 0, a, b)."
    )

"""`backsight run` and errors that are hard to explain: the program ends as under plain Python, whatever we can say."""

from __future__ import annotations

import shutil

import pytest

MODIFIED = "error BS202  "


def observed(bench, source, *options, **more):
    """How the program ended, and what backsight had to say of it."""
    bench.write("train.py", source)
    ended = bench.observed(*options, "train.py", **more)
    plain = bench.python("train.py", **more)
    assert (ended.status, ended.out) == (plain.status, plain.out)
    said = ended.err.partition("\nbacksight explains\n")
    assert _last(said[0]) == _last(plain.err)  # the user's own error, intact
    return said[2]


def _last(err: str) -> str:
    others = ("backsight: ", " ", "nanobind: ", "See https://nanobind")  # compiled code lets go of some things never
    lines = [line for line in err.splitlines() if line and not line.startswith(others)]
    return lines[-1].partition(" while calling ")[0] if lines else ""  # of a recursion: which call was one too many


CHECKPOINTED = """
import torch
from torch.utils.checkpoint import checkpoint

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.scale, self.calls = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.ones(4)), 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1:
            self.scale += 0.1
        return self.inner(x) * self.scale

block = Block()
y = checkpoint(block, torch.randn(2, 4, requires_grad=True), use_reentrant={})
y.sum().backward()
"""


@pytest.mark.parametrize("reentrant", [True, False])
def test_one_inside_the_recomputation_of_a_checkpoint(bench, reentrant):
    said = observed(bench, CHECKPOINTED.format(reentrant))
    assert "error BS205  block.scale is a leaf that requires grad" in said and "  train.py:13  " in said


def test_one_in_code_without_source(bench):
    source = """
import torch
exec(compile('''
def step(hidden):
    output, hidden = rnn(torch.randn(3, 1, 4), hidden)
    output.sum().backward()
    return hidden
for k in range(3):
    hidden = step(hidden)
''', "<generated>", "exec"), {"torch": torch, "rnn": torch.nn.RNN(4, 4), "hidden": torch.zeros(1, 1, 4)})
"""
    said = observed(bench, source)
    assert "error BS201  " in said and "<generated>:" in said


def test_one_in_a_script_that_has_removed_itself(bench):
    source = """
import os, torch
os.remove(__file__)
torch.ones(3, requires_grad=True).exp().backward()
"""
    bench.write("train.py", source)
    ended = bench.observed("train.py")
    assert ended.status == 1 and "error BS212  " in ended.err and "  train.py:4  " in ended.err


@pytest.mark.slow
def test_one_in_a_compiled_model(bench):
    source = """
import torch
cell = torch.nn.RNNCell(4, 4)

@torch.compile(backend="aot_eager")
def step(x, hidden):
    hidden = cell(x, hidden)
    return hidden.square().mean(), hidden

hidden = torch.zeros(1, 4)
for k in range(3):
    loss, hidden = step(torch.randn(1, 4), hidden)
    loss.backward()
"""
    said = observed(bench, source)
    assert "error BS201  hidden, a tensor of shape 1×4, carries the graph of one iteration into the next" in said
    assert "\n> train.py:12  loss, hidden = step(" in said


CPP = """
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline("squares", cpp_sources='''
#include <torch/extension.h>
struct Square : torch::autograd::Function<Square> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::tensor_list g) {
    return {2 * ctx->get_saved_variables()[0] * g[0]};
  }
};
at::Tensor square(at::Tensor x) { return Square::apply(x); }
''', functions=["square"], build_directory=".", extra_cflags=["-O0"])

weight = torch.ones(3, requires_grad=True)
hidden = weight * 2
loss = extension.square(hidden).sum()
hidden += 1
loss.backward()
"""


@pytest.mark.long  # the compiler works for half a minute
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("ninja")), reason="needs a C++ compiler and ninja")
def test_one_of_a_c_extension(bench):
    said = observed(bench, CPP)
    assert MODIFIED in said and "train.py:23  loss.backward()" in said


def test_one_of_an_operator_of_pytorchs_own(bench):
    source = """
import torch
weight = torch.ones(3, 3, requires_grad=True)
hidden = weight * 2
loss = torch.linalg.inv(hidden + torch.eye(3)).sum() + hidden.prod()
hidden.zero_()
loss.backward()
"""
    said = observed(bench, source)
    assert MODIFIED in said and "train.py:6  hidden.zero_()" in said


@pytest.mark.process
class TestTheEndOfTheStack:
    def test_is_no_autograd_error(self, bench):
        source = """
import torch
class Deep(torch.nn.Module):
    def forward(self, x):
        return self.forward(x * 2)
Deep()(torch.ones(2, requires_grad=True))
"""
        assert observed(bench, source) == ""

    def test_an_autograd_error_near_it_is_explained_or_not_and_comes_out_intact(self, bench):
        source = """
import torch
def deeper(x, depth=0):
    try:
        return deeper(x * 2, depth + 1)
    except RecursionError:
        torch.ones(2).sum().backward()
deeper(torch.ones(2, requires_grad=True))
"""
        assert "error BS203  " in observed(bench, source)

    @pytest.mark.slow
    def test_a_deep_graph_does_not_end_the_process(self, bench):
        source = """
import torch
x = torch.ones(2, requires_grad=True)
y = x
for _ in range(100_000):
    y = y + 1
y.sum().backward()
y.sum().backward()
y.exp().backward()
"""
        assert "error BS212  " in observed(bench, source)


HARD = """
import torch

class {name}(RuntimeError):
{body}

def fails():
    try:
        torch.ones(3, requires_grad=True).exp().backward()
    except RuntimeError as error:
        raise {name}(*error.args) from None
fails()
"""


@pytest.mark.parametrize(
    "body",
    [
        "    def __setattr__(self, name, value): raise TypeError('nothing may be set')",
        "    def __getattribute__(self, name): raise KeyError(name)",
        "    __notes__ = ('mine',)",
        "    def add_note(self, note): raise KeyError('asked')",
        "    __slots__ = ()",
    ],
    ids=["sets nothing", "answers nothing", "has notes of its own", "takes no notes", "has slots"],
)
def test_one_of_an_odd_class(bench, body):
    assert "error BS212  " in observed(bench, HARD.format(name="Odd", body=body))


class TestAFailureOfOurs:
    BREAKING = """
import torch, backsight.diagnosis.explained as diagnosis

def broken(error):
    raise {error}
diagnosis.explanation = broken
torch.ones(2).sum().backward()
"""

    @pytest.mark.parametrize("error", ["RecursionError('ours')", "MemoryError('ours')", "KeyError('ours')"])
    def test_is_one_line_below_the_users_error(self, bench, error):
        bench.write("train.py", self.BREAKING.format(error=error))
        plain, ended = bench.python("train.py"), bench.observed("train.py")
        assert ended.status == plain.status == 1
        assert ended.err.startswith(plain.err)
        assert ended.err[len(plain.err) :] == f"backsight: no explanation: {error.partition('(')[0]}: ours\n".replace(
            "KeyError: ours", "KeyError: 'ours'"
        )

    @pytest.mark.parametrize("error", ["SystemExit(7)", "KeyboardInterrupt"])
    def test_even_one_that_would_end_the_process(self, bench, error):
        bench.write("train.py", self.BREAKING.format(error=error))
        ended = bench.observed("train.py")
        assert ended.status == 1 and "does not require grad" in ended.err

    def test_within_an_explanation_leaves_what_is_certain(self, bench):
        source = """
import torch, backsight.diagnosis.errors.scalar_outputs as rule
from backsight.diagnosis.errors import ERRORS
import dataclasses

def broken(failure, match):
    raise ValueError("ours")
for k, entry in enumerate(ERRORS):
    if entry.code == "BS212":
        ERRORS[k] = dataclasses.replace(entry, explain=broken)
torch.ones(3, requires_grad=True).exp().backward()
"""
        said = observed(bench, source)
        assert "error BS212  grad can be implicitly created only for scalar outputs" in said
        assert "backsight could not analyze it further: ValueError in broken:" in said

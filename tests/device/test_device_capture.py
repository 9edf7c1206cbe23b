"""Graphs, explanations and the exact watch say of tensors on a device what they say on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from at_hand import DEVICE, ROOT, SECONDS, Waits, environment
from torch import nn

import backsight as bs

sys.path.insert(0, str(ROOT / "examples"))
from gpt import gpt, next_token_batch

pytestmark = pytest.mark.device("capture, explanation and the exact watch on CUDA")

BROKEN = sorted((ROOT / "examples" / "broken").glob("*.py"))
THIRDS = [BROKEN[k::3] for k in range(3)]
PLACE = re.compile(r"^  (?:at )?\S*?([\w.]+\.py):(\d+)", re.MULTILINE)


def loss_on(device):
    torch.manual_seed(0)
    model = gpt(vocabulary=64, width=32, layers=2, heads=2).to(device)
    tokens, targets = (each.to(device) for each in next_token_batch(64, 2, 16))
    return model, lambda: nn.functional.cross_entropy(model(tokens), targets)


def test_a_graph_has_the_same_leaves_names_and_modules():
    def drawn(device):
        model, step = loss_on(device)
        loss = step()
        graph = bs.graph(loss)
        return [(leaf.name, leaf.shape) for leaf in graph.leaves], {node.module for node in graph.nodes}, model

    (leaves, modules, _), (expected, expected_modules, _) = drawn(DEVICE), drawn("cpu")
    assert leaves == expected
    assert modules == expected_modules


def test_a_graph_is_captured_without_waiting():
    _, step = loss_on(DEVICE)
    loss = step()
    bs.graph(loss)
    with Waits() as waits:
        bs.graph(loss)
    assert waits.count == 0, waits.told


def test_an_explained_error_names_the_tensor_and_the_line():
    x = torch.randn(8, 8, device=DEVICE, requires_grad=True)
    hidden = torch.sigmoid(x)
    hidden[0] = 0
    with pytest.raises(RuntimeError) as raised:
        hidden.sum().backward()
    told = str(bs.explain(raised.value))
    assert "BS202" in told
    assert "hidden" in told


def said(program, device, folder):
    """Run a script of `examples/broken` moved to a device; return the codes and places that backsight tells."""
    text = program.read_text(encoding="utf-8")
    moved = re.sub(r"(torch\.manual_seed\(0\))", rf"\1; torch.set_default_device({device!r})", text, count=1)
    assert moved != text
    file = folder / device / program.name
    file.parent.mkdir(exist_ok=True)
    file.write_text(moved, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "backsight", "run", str(file)],
        capture_output=True,
        text=True,
        timeout=SECONDS - 5,
        cwd=folder,
        env=environment(),
    )
    told = done.stderr[done.stderr.find("backsight") :]
    return done.returncode, set(re.findall(r"\bBS\d{3}\b", told)), set(PLACE.findall(told)), done.stderr


@pytest.mark.parametrize("programs", THIRDS, ids=["first", "second", "last"])
def test_scripts_that_fail_are_explained_as_on_the_cpu(programs, tmp_path, told):
    jobs = [(program, device) for program in programs for device in dict.fromkeys((DEVICE, "cpu"))]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 2)) as pool:
        found = dict(zip(jobs, pool.map(lambda job: said(*job, tmp_path), jobs), strict=True))
    different = {}
    for program in programs:
        here, there = found[program, DEVICE], found[program, "cpu"]
        assert there[1], there[3]
        if here[:2] != there[:2] or not here[2] >= there[2]:  # cuDNN's node of an RNN has a line more to show
            different[program.name] = f"{here[:3]} is not {there[:3]}\n{here[3][-1500:]}"
    told(f"{len(programs) - len(different)} of {len(programs)} alike")
    assert not different, "\n\n".join(different.values())


def test_the_exact_watch_tells_the_lines_and_changes_nothing():
    def trained(watched):
        model, step = loss_on(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        told = []
        for _ in range(2):
            with bs.watch(level="exact") if watched else torch.enable_grad() as watch:
                loss = step()
                if watched:
                    told = [watch.operation_of(node) for node in bs.graph(loss).nodes]
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return [each.detach().cpu() for each in model.parameters()], told

    (plain, _), (watched, told) = trained(False), trained(True)
    assert len([each for each in told if each is not None]) > 30
    for one, other in zip(plain, watched, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # an embedding's backward adds in any order


def test_the_exact_watch_does_not_wait(told):
    _, step = loss_on(DEVICE)
    with bs.watch(level="exact"):
        step().backward()
        with Waits() as waits:
            step().backward()
    assert waits.count == 0, waits.told
    told(f"{waits.count} waits in a step")


def test_a_wrong_backward_is_verified_on_the_device():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    x = torch.randn(5, dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert not bs.verify(Double.apply, x).ok

"""No import of ours, be it in the midst of a training, draws from the random numbers of the program."""

from __future__ import annotations

import sys

import fresh

EVERYTHING = """
import importlib, pkgutil, random, warnings
warnings.simplefilter("ignore")
random.seed(0)
before = random.getstate()
import backsight
moved = []
for module in pkgutil.walk_packages(backsight.__path__, "backsight."):
    if ".demo." in module.name or module.name.endswith("__main__"):
        continue  # programs
    try:
        importlib.import_module(module.name)
    except ImportError:
        continue  # of what is not installed
    if random.getstate() != before:
        moved.append(module.name)
        random.setstate(before)
print(moved)
"""


def test_no_module_of_ours_draws_as_it_is_imported():
    done = fresh.run([sys.executable, "-c", EVERYTHING], check=True)
    assert done.stdout == "[]\n", done.stdout


SHUFFLED = """
import random
import torch

random.seed(0)
order = list(range(20))
weight = torch.ones(2, requires_grad=True)
for epoch in range(2):
    random.shuffle(order)
    (weight * 2).sum().backward()
    (weight * 2).grad                              # a warning, which is explained
print(order)
"""


def test_a_finding_amid_a_training_leaves_the_order_of_its_data(tmp_path):
    (tmp_path / "train.py").write_text(SHUFFLED, encoding="utf-8")
    plain = fresh.run([sys.executable, "train.py"], cwd=tmp_path)
    command = [sys.executable, "-m", "backsight", "run", "train.py"]
    observed = fresh.run(command, cwd=tmp_path)
    assert "BS216" in observed.stderr
    assert observed.stdout == plain.stdout != ""

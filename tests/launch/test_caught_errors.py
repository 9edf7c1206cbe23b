"""`backsight run`: errors of autograd that the program catches, or that end a process which it has forked."""

import json

import pytest

SWALLOWED = """
import torch
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    try:
        h = model(torch.randn(2, 3)).sigmoid()
        if step % 2:
            h += 1
        h.sum().backward()
        optimizer.step()
    except RuntimeError:
        continue
print("goes on")
"""

HEADING = "\nbacksight explains: an error that the program caught\n"


def observed(bench, source, *options, **more):
    bench.write("train.py", source)
    return bench.observed(*options, "train.py", **more)


def test_what_the_program_explains_itself_is_not_explained_again(bench):
    source = SWALLOWED.replace("        continue", "        print(backsight.explain())").replace(
        "\n", "\nimport backsight\n", 1
    )
    ended = observed(bench, source)
    assert ended.out.count("h was modified in place") == 3 and "h was modified in place" not in ended.err
    assert ended.err.startswith("backsight: the program itself has explained its error: BS202 at train.py:11\n")
    assert "backsight: 1 error explained above; otherwise nothing found in 3 optimizer steps: " in ended.err


@pytest.mark.process
def test_an_error_that_is_swallowed_is_explained_once_and_further_ones_are_counted(bench):
    ended = observed(bench, SWALLOWED)
    assert (ended.status, ended.out) == (0, "goes on\n")
    assert ended.err.count("backsight explains") == ended.err.count(HEADING) == 1
    assert "error BS202  h was modified in place after sigmoid had saved it for backward." in ended.err
    assert "\n  fix: Write h = h + 1:" in ended.err
    assert "backsight: errors of the kinds explained above were caught 2 more times\n" in ended.err
    assert "backsight: 1 error explained above; otherwise nothing found in 3 optimizer steps: " in ended.err


def test_one_that_is_not_caught_is_explained_as_such_alone(bench):
    source = "import torch\ny = torch.ones(3, requires_grad=True).exp()\ny += 1\ny.sum().backward()\n"
    ended = observed(bench, source)
    assert ended.status == 1
    assert HEADING not in ended.err and ended.err.count("backsight explains") == 1


def test_one_that_is_raised_again_as_another_is_explained_at_the_end(bench):
    source = """
import torch
y = torch.ones(3, requires_grad=True).exp()
y += 1
try:
    y.sum().backward()
except RuntimeError as error:
    raise ValueError("no step") from error
"""
    ended = observed(bench, source)
    assert HEADING not in ended.err and ended.err.count("backsight explains") == 1


def test_two_kinds_are_told_each(bench):
    source = """
import torch
x = torch.ones(3, requires_grad=True)
for attempt in (lambda: x.add_(1), lambda: x.detach().sum().backward(), lambda: x.add_(2)):
    try:
        attempt()
    except RuntimeError:
        pass
"""
    ended = observed(bench, source)
    assert [code for code in ("BS205", "BS203") if code in ended.err] == ["BS205", "BS203"]
    assert ended.err.count(HEADING) == 2
    assert "were caught 1 more time\n" in ended.err


def test_what_a_library_tries_for_itself_is_its_own_affair(bench):
    bench.write("site-packages/trying.py", "def ask(x):\n    try:\n        x.add_(1)\n    except RuntimeError: pass\n")
    source = """
import sys, torch
sys.path.insert(0, "site-packages")
import trying
trying.ask(torch.ones(3, requires_grad=True))
"""
    assert "backsight explains" not in observed(bench, source).err


@pytest.mark.process
def test_an_error_that_ends_a_forked_process(bench):
    source = """
import torch, multiprocessing
def work():
    y = torch.ones(3, requires_grad=True).exp()
    y += 1
    y.sum().backward()
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
print(process.exitcode)
"""
    ended = observed(bench, source)
    assert ended.out == "1\n"
    assert ended.err.count("backsight explains") == 1
    assert "\n  fix: Write y = y + 1:" in ended.err


def test_as_lines_of_json_it_says_that_it_was_caught(bench):
    ended = observed(bench, SWALLOWED, "--json-to", "told.jsonl")
    assert ended.status == 0
    told = [json.loads(line) for line in (bench.folder / "told.jsonl").read_text().splitlines()]
    (explained,) = [line for line in told if line["kind"] == "explanation"]
    assert (explained["code"], explained["caught"]) == ("BS202", True)


IN_A_WORKER = """
import torch
from torch import nn
from torch.utils.data import DataLoader

class Features:
    def __init__(self):
        self.features = nn.Linear(2, 3)(torch.ones(4, 2))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.from_numpy(self.features[index].numpy())

def train(head, loader):
    for x in loader:
        loss = head(x).sum()
        loss.backward()

train(nn.Linear(3, 1), DataLoader(Features(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
"""


def test_in_a_worker_of_a_loader_nothing_is_said_of_the_loss(bench):
    ended = observed(bench, IN_A_WORKER)
    assert "BS219" in ended.err
    assert "the loss reaches the model without it" not in " ".join(ended.err.split())


WORK = """
import torch
from torch.utils.data import DataLoader

def work(index):
    y = torch.ones(3, requires_grad=True).exp()
    y += 1
    y.sum().backward()
    return index

class Rows:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return work(index)
"""

HANDED_ON = {
    "a worker of a loader": (
        "for x in DataLoader(Rows(), num_workers=2, multiprocessing_context='fork'): pass",
        "(It was raised in DataLoader worker process 0.)",
    ),
    "a process of a pool": (
        "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: pool.map(work, [1, 2])",
        "(It was raised in a process of the pool.)",
    ),
    "another kind of pool": (
        "import concurrent.futures, multiprocessing\n"
        "with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool:\n"
        "    list(pool.map(work, [1, 2]))",
        "(It was raised in a process of the pool.)",
    ),
}


@pytest.mark.parametrize("where", HANDED_ON)
def test_an_error_of_another_process_is_told_once_where_it_comes_out(bench, where):
    last, said = HANDED_ON[where]
    ended = observed(bench, WORK + last)
    assert ended.status == 1
    assert ended.err.count("backsight explains") == 1 and HEADING not in ended.err
    assert ended.err.count("error BS202  y was modified in place after exp had saved it for backward.") == 1
    assert "\n  fix: Write y = y + 1:" in ended.err
    assert said in ended.err


def test_an_error_of_a_thread_that_ends_the_program_as_well_is_told_once(bench):
    ended = observed(
        bench,
        WORK
        + """
import threading
errors = []
def run():
    try:
        work(0)
    except RuntimeError as error:
        errors.append(error)
        raise
thread = threading.Thread(target=run)
thread.start()
thread.join()
raise errors[0]
""",
    )
    assert ended.err.count("backsight explains") == 1
    told = "backsight: explained above: BS202 at train.py:7: y was modified in place after exp had saved it"
    assert told in ended.err


def test_an_error_of_a_task_that_ends_the_program_is_told_as_that_while_other_tasks_go_on(bench):
    last = """
import asyncio
async def task(index):
    work(index)
async def main():
    await asyncio.gather(task(1), task(2))
asyncio.run(main())
"""
    ended = observed(bench, WORK + last)
    assert ended.err.count("backsight explains") == 1 and HEADING not in ended.err


def test_an_error_that_a_task_has_caught_is_told_as_that(bench):
    last = """
import asyncio
async def task(index):
    try:
        work(index)
    except RuntimeError:
        await asyncio.sleep(0)
        torch.ones(2)
async def main():
    await asyncio.gather(task(1), task(2))
asyncio.run(main())
"""
    assert observed(bench, WORK + last).err.count(HEADING) == 1


def test_an_error_that_a_process_has_sent_is_told_as_that_process_saw_it(bench):
    last = """
import multiprocessing
def run(out):
    try:
        work(0)
    except RuntimeError as error:
        out.put(error)
context = multiprocessing.get_context("fork")
out = context.Queue()
process = context.Process(target=run, args=(out,))
process.start()
error = out.get()
process.join()
raise ValueError("no result") from error
"""
    ended = observed(bench, WORK + last)
    assert ended.err.count("backsight explains") == 1
    assert "error BS202  y was modified in place" in ended.err and "(It was raised in another process.)" in ended.err


def test_a_program_that_closes_all_descriptors_finds_in_its_files_what_it_has_written(bench):
    source = """
import os, torch
os.closerange(3, 1024)
files = [open(f"log{k}", "w") for k in range(400)]  # one of them has each descriptor that was open
w = torch.ones(2, requires_grad=True)
loss = w.exp().sum()
loss.backward()
for _ in range(2):
    try:
        loss.backward()
    except RuntimeError:
        pass
for file in files:
    file.write("mine")
    file.close()
print({open(f"log{k}").read() for k in range(400)})
"""
    ended = observed(bench, source)
    assert (ended.status, ended.out) == (0, "{'mine'}\n")
    assert "error BS201" in ended.err and "caught" in ended.err

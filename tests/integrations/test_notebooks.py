"""`%load_ext backsight`: below a cell's traceback stands what an autograd error means; nothing else changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import fresh
import pytest

import backsight

pytest.importorskip("IPython")

SOURCE = Path(backsight.__file__).parents[1]

SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.colors = "nocolor"
for cell in {cells!r}:
    print("=== cell")
    shell.run_cell(cell, store_history=True)

"""

SETUP = "import torch\nrnn = torch.nn.RNN(4, 4)\nhidden = torch.zeros(1, 1, 4)"
STEP = """
def step(hidden):
    output, hidden = rnn(torch.randn(3, 1, 4), hidden)
    output.sum().backward()
    return hidden
"""
LOOP = "for k in range(3):\n    hidden = step(hidden)"

TABLES = """
net = torch.nn.Linear(2, 1)
step = lambda: net(torch.ones(4, 2)).sum().backward()
loss = net(torch.ones(4, 2)).sum()
with backsight.profile() as profile:
    step()
for shown in (backsight.graphs(), backsight.walk(loss), backsight.measure_memory(step), profile, backsight.audit(loss)):
    assert "\\n" in str(shown) or str(shown).startswith("backsight: nothing found"), type(shown)
"""


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "IPYTHON"))}
    clean.pop("FORCE_COLOR", None)
    return clean | {"PYTHONPATH": str(SOURCE), "COLUMNS": "100"} | more


def cells(tmp_path: Path, *sources: str, **env: str) -> list[str]:
    """What each of some cells prints, stderr included, in one shell of IPython's."""
    program = SHELL.format(cells=[textwrap.dedent(source) for source in sources])
    done = fresh.run(
        [sys.executable, "-u", "-c", program],
        cwd=tmp_path,
        env=environment(IPYTHONDIR=str(tmp_path / "ipython"), **env),
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return _COLOR.sub("", done.stdout).split("=== cell\n")[1:]


_COLOR = re.compile(r"\x1b\[[\d;]*m")
"""Older shells show tracebacks in color though no terminal is there."""


class TestInATerminal:
    def test_the_explanation_stands_below_the_traceback(self, tmp_path):
        *_, failed = cells(tmp_path, "%load_ext backsight", SETUP, STEP, LOOP)
        traceback, _, said = failed.partition("\nerror BS201  ")
        assert "RuntimeError: Trying to backward through the graph a second time" in traceback
        assert "  In[4]:2  hidden = step(hidden)\n      reads hidden from the previous iteration" in said
        assert "hidden = hidden.detach()" in said

    def test_a_cell_that_ends_well_and_an_error_of_another_kind_get_no_comment(self, tmp_path):
        loaded, fine, divided = cells(tmp_path, "%load_ext backsight\nimport torch", "torch.ones(3).sum()", "1 / 0")
        assert (loaded, fine.split()) == ("", ["Out[2]:", "tensor(3.)"])
        assert divided.rstrip().endswith("ZeroDivisionError: division by zero")

    def test_a_script_that_is_run_in_a_cell_is_explained_too(self, tmp_path):
        (tmp_path / "train.py").write_text(f"{SETUP}\n{STEP}\n{LOOP}\n")
        _, failed = cells(tmp_path, "%load_ext backsight", "%run train.py")
        assert failed.count("error BS201") == 1 and "train.py:11" in failed

    def test_an_error_is_explained_in_its_own_cell_only(self, tmp_path):
        *_, failed, after = cells(tmp_path, "%load_ext backsight", SETUP, STEP, LOOP, "print(hidden.shape)")
        assert "BS201" in failed and after == "torch.Size([1, 1, 4])\n"

    def test_a_cell_within_a_cell_does_not_show_it_again(self, tmp_path):
        inner = ("get_ipython().run_cell('print(1)')", "%%capture\nprint(1)", "print(2)")
        *_, failed, nested, captured, after = cells(tmp_path, "%load_ext backsight", SETUP, STEP, LOOP, *inner)
        assert "BS201" in failed and nested.startswith("1\n")
        assert "BS201" not in nested + captured + after

    def test_a_warning_of_pytorchs_is_explained_below_it(self, tmp_path):
        *_, warned = cells(
            tmp_path, "%load_ext backsight\nimport torch", "y = torch.ones(2, requires_grad=True) * 2", "y.grad"
        )
        warning, _, said = warned.partition("\nwarning BS")
        assert "UserWarning: The .grad attribute of a Tensor that is not a leaf" in warning
        assert "In[3]:1  y.grad" in said

    def test_an_interrupt_is_not_explained(self, tmp_path):
        source = "try:\n    torch.ones(1).sum().backward()\nexcept RuntimeError:\n    raise KeyboardInterrupt"
        *_, stopped = cells(tmp_path, "%load_ext backsight\nimport torch", source)
        assert "KeyboardInterrupt" in stopped and "BS203" not in stopped

    def test_a_failure_of_ours_is_one_line_below_the_whole_traceback(self, tmp_path):
        breaking = "import backsight.diagnosis as d\ndef explain(error): raise ValueError('ours')\nd.explain = explain"
        *_, failed = cells(tmp_path, "%load_ext backsight", SETUP, STEP, breaking, LOOP)
        assert "RuntimeError: Trying to backward" in failed
        assert failed.rstrip().endswith("backsight: no explanation: ValueError")

    def test_explain_in_a_cell_shows_the_text_and_not_the_fields(self, tmp_path):
        *_, shown = cells(tmp_path, SETUP, STEP, LOOP, "import backsight\nbacksight.explain()")
        assert shown.startswith("Out[4]: \nerror BS201  hidden, a tensor") and "Finding(" not in shown


FAILS = """
import torch.nn.functional as F
def fails(x):
    y = F.relu(x)
    with torch.no_grad():
        y.mul_(2)
    return F.linear(y, torch.ones(3, 5))
try:
    fails(torch.ones(2, 4, requires_grad=True))
except RuntimeError as caught:
    raise ValueError("another") from caught
"""


class TestWatching:
    def test_the_traceback_is_that_of_a_shell_without_us(self, tmp_path):
        fails = ["import torch", FAILS, "fails(torch.ones(2, 4, requires_grad=True))", "%tb"]
        loaded, *with_us = cells(tmp_path, "%load_ext backsight", *fails)
        without_us = cells(tmp_path, "'nothing'", *fails)[1:]
        assert loaded == "" and "mat1 and mat2 shapes" in with_us[1] and "BS200" in with_us[1]
        assert [each.partition("\nerror BS200")[0].rstrip() for each in with_us] == [
            each.rstrip() for each in without_us
        ]

    def test_is_exact(self, tmp_path):
        sources = [
            "import torch\nw = torch.ones(3, requires_grad=True)",
            "def scaled(values):\n    values.mul_(2)",
            "y = torch.exp(w)\nloss = y.sum()\nfor each in (y,):\n    scaled(each)",
            "loss.backward()",
        ]
        *_, failed = cells(tmp_path, "%load_ext backsight", *sources)
        assert "error BS202" in failed and "In[3]:2  values.mul_(2)" in failed
        assert "watch" not in failed and "Read from" not in failed

    def test_a_cell_that_trains_for_long_is_watched_at_its_start_and_so_is_the_next(self, tmp_path):
        watched = "import backsight.tracing as t\nprint(t.current() is not None)"
        train = (
            "import torch\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
            "for k in range(150):\n    net(torch.ones(1, 2)).sum().backward()\n    optimizer.step()\n"
            "    optimizer.zero_grad()\n"
        )
        *_, long, following = cells(tmp_path, "%load_ext backsight\nimport torch", train + watched, watched)
        assert (long, following) == ("False\n", "True\n")

    def test_what_a_training_does_wrong_in_silence_is_said_below_the_cell_once(self, tmp_path):
        train = (
            "for k in range(3):\n    optimizer.zero_grad()\n    body(torch.ones(1, 2)).detach().requires_grad_()\n"
            "    head(body(torch.ones(1, 2)).detach()).sum().backward()\n    optimizer.step()"
        )
        made = (
            "import torch\nbody, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)\n"
            "optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.1)"
        )
        *_, first, second = cells(tmp_path, "%load_ext backsight", made, train, train)
        assert first.count("error BS") + first.count("warning BS") >= 1 and "body.weight" in first
        assert second == ""

    @pytest.mark.parametrize("level", ["lines", "calls", "off"])
    def test_less_is_watched_where_less_was_asked_for(self, tmp_path, level):
        asked = "import backsight.tracing as t\nprint(getattr(t.current(), 'level', 'off'))"
        *_, shown = cells(tmp_path, f"%env BACKSIGHT_WATCH={level}", "%load_ext backsight\nimport torch", asked)
        assert shown == f"{level}\n"

    def test_a_level_that_there_is_not_is_said_and_watched_exactly(self, tmp_path):
        loaded, _ = cells(tmp_path, "%load_ext backsight\nimport torch", "1", BACKSIGHT_WATCH="all")
        assert loaded == "backsight: BACKSIGHT_WATCH expects exact, lines, calls or off, not 'all': watching exactly\n"

    def test_a_shell_that_shows_exceptions_in_a_way_of_its_own_goes_on_to(self, tmp_path):
        own = "get_ipython().set_custom_exc((ValueError,), lambda shell, *given, **named: print('my own way'))"
        *_, shown = cells(tmp_path, own, "%load_ext backsight\nimport torch", "raise ValueError")
        assert shown == "my own way\n"


class TestLoading:
    def test_imports_no_torch(self, tmp_path):
        asked = "import sys\nprint('torch' in sys.modules, 'rich' in sys.modules)"
        assert cells(tmp_path, "%load_ext backsight", asked, "1 / 0", asked)[-1] == "False False\n"

    def test_twice_explains_once(self, tmp_path):
        *_, failed = cells(tmp_path, "%load_ext backsight", "%reload_ext backsight", SETUP, STEP, LOOP)
        assert failed.count("error BS201") == 1

    def test_notes_optimizer_steps_which_makes_explanations_exact(self, tmp_path):
        steps = LOOP + "\n    optimizer.step()"
        *_, failed = cells(
            tmp_path, "%load_ext backsight", SETUP, "optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)", STEP, steps
        )
        assert "the optimizer has since modified weights that graph saved" in " ".join(failed.split())
        assert "Read from the source text" not in failed

    def test_and_unloading_leaves_nothing_behind(self, tmp_path):
        state = (
            "import sys, gc, torch, warnings\n"
            "def state():\n"
            "    shell = get_ipython()\n"
            "    events = {name: list(map(str, found)) for name, found in shell.events.callbacks.items()}\n"
            "    places = [vars(sys.modules[name]) for name in ('torch.nn.modules.module', 'torch.optim.optimizer')]\n"
            "    hooks = [len(held) for place in places for name, held in place.items() if name.endswith('_hooks')]\n"
            "    hooks.append(warnings.showwarning)\n"
            "    return events, hooks, sys.excepthook, sys.meta_path[:], shell.custom_exceptions, sorted(vars(shell))"
        )
        *_, same, failed = cells(
            tmp_path,
            state,
            "before = state()",
            "%load_ext backsight",
            SETUP,
            STEP,
            LOOP,
            "loaded = state()",
            "%unload_ext backsight",
            "print(state() == before, loaded == before)",
            "hidden = torch.zeros(1, 1, 4)\n" + LOOP,
        )
        assert same == "True False\n"
        assert "Trying to backward" in failed and "BS201" not in failed

    def test_nothing_of_an_error_is_kept(self, tmp_path):
        *_, alive = cells(
            tmp_path,
            "%load_ext backsight",
            "import torch, weakref, sys, gc",
            "def fails():\n"
            "    model = torch.nn.Linear(2, 1)\n"
            "    global seen\n"
            "    seen = weakref.ref(model)\n"
            "    (model(torch.ones(1, 2)) * 2 + torch.ones(3, 1)).backward()",
            "fails()",
            "for name in ('last_exc', 'last_type', 'last_value', 'last_traceback'): vars(sys).pop(name, None)\n"
            "get_ipython().InteractiveTB.tb = None",
            "gc.collect()\nprint(seen())",
        )
        assert alive == "None\n"


class TestInJupyter:
    @pytest.fixture(scope="class")
    @classmethod
    def outputs(cls) -> list[list[dict]]:
        nbformat = pytest.importorskip("nbformat")
        nbclient = pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
        book = nbformat.v4.new_notebook()
        sources = [
            "%load_ext backsight",
            SETUP,
            STEP,
            LOOP,
            "import backsight\nbacksight.explain()",
            "print(backsight.explain())",
            TABLES,
        ]
        book.cells = [nbformat.v4.new_code_cell(source) for source in sources]
        client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True)
        client.execute(env=environment())
        return [cell.outputs for cell in book.cells]

    @pytest.mark.slow
    def test_the_error_comes_first_and_the_explanation_below_it(self, outputs):
        assert [each["output_type"] for each in outputs[3]] == ["error", "display_data"]
        assert outputs[3][0]["ename"] == "RuntimeError"

    def test_as_html_and_as_text_for_what_shows_none(self, outputs):
        data = outputs[3][1]["data"]
        assert '<section class="backsight error" aria-label="backsight: error BS201">' in data["text/html"]
        assert data["text/plain"].startswith("error BS201  hidden, a tensor of shape 1×1×4")

    def test_cells_are_called_as_the_traceback_calls_them(self, outputs):
        assert "In[4]:2" in outputs[3][1]["data"]["text/plain"]
        assert not re.search(r"\d{6}\.py", outputs[3][1]["data"]["text/html"])

    def test_every_table_is_text_that_can_be_printed(self, outputs):
        assert [each for each in outputs[6] if each.get("name") != "stderr"] == []
        assert not any("backsight" in each["text"] for each in outputs[6])  # what PyTorch warns of is its own

    def test_an_explanation_that_is_asked_for_is_shown_once(self, outputs):
        (asked,), (printed,) = outputs[4], outputs[5]
        assert asked["data"]["text/plain"].startswith("error BS201") and "<section" in asked["data"]["text/html"]
        assert printed["text"].startswith("error BS201")

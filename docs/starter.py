"""Start programs, each in a process of its own that has imported PyTorch already: a fork of this one.

`programs.py` starts it, and writes an order a line: {"folder", "name", "options"} runs the program of that name in
that folder, under `backsight run` with these options, or by itself where `options` is null; {"folder", "name",
"blocks"} runs the blocks of a page one after the other, in one namespace. The answer is the exit status. What a program
writes goes to the files `out` and `err` of its folder, and what each block prints to `prints.json`.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import signal
import sys
import threading
import weakref
from types import ModuleType
from typing import Any

import torch._dynamo  # noqa: F401  what takes long, and is done once: the first optimizer of a program asks for this

import backsight.cli
import backsight.diagnosis
import backsight.findings.printing.terminal
import backsight.launch.caught
import backsight.launch.first_steps
import backsight.launch.lines
import backsight.launch.newness
import backsight.launch.summary
import backsight.launch.training
import backsight.memory
import backsight.recording
import backsight.text.rich
import backsight.verification

LONGEST = 300  # seconds that a program may take


def next_order() -> dict[str, Any]:
    """Answer orders, each by a fork; return in the fork, with the order that it is to do.

    What is imported by then is kept from the collector, and has nothing of it taken back at the end: each would look at
    all of PyTorch in every fork, and copy it.
    """
    gc.collect()
    gc.freeze()
    for each in list(weakref.finalize._registry):
        each.atexit = False
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return order
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def settle(folder: str) -> None:
    """Make this process one that was started in the folder."""
    signal.alarm(LONGEST)
    os.chdir(folder)
    for stream, name, flags in ((0, os.devnull, os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
        opened = os.open(name, flags | os.O_CREAT)
        os.dup2(opened, stream)
        os.close(opened)
    sys.path[0] = folder


def run_blocks(name: str, blocks: list[tuple[int, str]]) -> None:
    """Run blocks of a script, each given with the line where it begins there; keep what each prints."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = os.path.join(os.getcwd(), name)
    prints = []
    for line, block in blocks:
        printed = io.StringIO()
        code = compile("\n" * (line - 1) + block, main.__file__, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, vars(main))
        prints.append(printed.getvalue())
    with open("prints.json", "w", encoding="utf-8") as file:
        json.dump(prints, file)


def run(order: dict[str, Any]) -> None:
    """Do what an order says."""
    if "blocks" in order:
        run_blocks(order["name"], order["blocks"])
    elif order["options"] is None:
        sys.argv = [order["name"]]
        runpy.run_path(order["name"], run_name="__main__")
    else:
        sys.exit(backsight.cli.main(["run", *order["options"], order["name"]]))


def leave(status: int) -> None:
    """End as Python does, except that it takes nothing down: of all that is imported here that lasts a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # what Py_FinalizeEx calls first
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


order = next_order()
settle(order["folder"])
try:
    run(order)
except SystemExit as leaving:
    leave(int(leaving.code or 0))
except BaseException:
    sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    leave(1)
leave(0)

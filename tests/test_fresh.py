"""A program in a child of the process that has imported torch ends, and sees the world, as under python."""

import os
import re
import signal
import subprocess
import sys

import fresh
import pytest

ALIKE = {
    "arguments": "import sys; print(sys.argv, sys.path[0], __name__, sys.orig_argv[1:])",
    "names": "print(sorted(vars()))",
    "where it runs": "import os; print(os.getcwd(), os.environ['MINE'], 'OMP_NUM_THREADS' in os.environ)",
    "the path": "import beside; print(beside.__file__)",
    "what it is given": "print(input(), [*open(0)])",
    "a status": "import sys; sys.exit(3)",
    "a text": "import sys; print('out'); sys.exit('in a word')",
    "an error": "def f():\n    1 / 0\nf()",
    "a hook": "import sys\nsys.excepthook = lambda *told: print('hooked', told[0].__name__)\n1 / 0",
    "no program": "if",
    "a signal": f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})",
    "the end": "import atexit, threading, time\natexit.register(print, 'last')\n"
    "threading.Thread(target=lambda: (time.sleep(0.01), print('thread'))).start()",
    "destructors": "class Held:\n    def __del__(self): print('gone')\nheld = Held()",
    "circles": "class Held:\n    def __del__(self, say=print): say('gone')\nheld = Held()\nheld.itself = held",
    "an object that answers nothing": "class Held:\n    def __getattribute__(self, name): 1 / 0\nheld = Held()",
    "modes": "import torch; print(torch.is_grad_enabled(), torch.get_default_dtype())",
    "circles, with torch": "import torch\nclass Held:\n    def __del__(self, say=print): say('gone')\n"
    "held = Held()\nheld.itself = held, torch",
}


STARTS = ("arguments", "names", "the path", "an error", "a status", "no program")
"""What depends on how a program is started; all else is tried as a script in `make test`."""


@pytest.mark.parametrize(
    ("what", "way"),
    [
        (what, way) if way == "script" or what in STARTS else pytest.param(what, way, marks=pytest.mark.long)
        for what in ALIKE
        for way in ("-c", "-m", "script")
    ],
)
def test_all_is_as_under_python(tmp_path, way, what):
    (tmp_path / "program.py").write_text(ALIKE[what])
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "beside.py").touch()
    program = {"-c": ["-c", ALIKE[what]], "-m": ["-m", "program"], "script": ["program.py"]}[way]
    env = {**os.environ, "MINE": "mine", "PYTHONPATH": str(tmp_path / "else")}
    words = [sys.executable, *program, "argument", "-m", "é"]
    given = "first\nsecond\n"
    real = subprocess.run(words, cwd=tmp_path, env=env, input=given, capture_output=True, text=True)
    ended = fresh.run(words, cwd=tmp_path, env=env, input=given)
    assert (ended.returncode, ended.stdout) == (real.returncode, real.stdout)
    assert ended.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]
    assert "fresh.py" not in ended.stderr


def test_around_a_program_runs_nothing_that_has_a_file(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys\nframe = sys._getframe()\nwhile frame := frame.f_back:\n    print(frame.f_code.co_filename)\n"
    )
    files = fresh.run([sys.executable, "program.py"], cwd=tmp_path, check=True).stdout.splitlines()
    assert all(file.startswith("<") for file in files), "who reads the files of a program would read these as well"


def forked(*words, **options):
    """Whether another process than this one is the program's parent."""
    return (
        fresh.run([sys.executable, *words, "-c", "import os; print(os.getppid())"], **options).stdout
        != f"{os.getpid()}\n"
    )


forks = pytest.mark.skipif(sys.platform != "linux" or os.environ.get("FORKS") == "0", reason="forks nothing")


def test_warnings_are_filtered_as_python_is_asked_to(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys, torch, warnings\n"
        "for kind in 2 * [UserWarning, DeprecationWarning, FutureWarning, ResourceWarning, RuntimeWarning]:\n"
        "    warnings.warn(f'{sys.warnoptions}', kind)\n"
    )
    flags = ["-u", "-W", "always", "-W", "ignore::UserWarning", "-W", "error::RuntimeWarning"]
    words = [sys.executable, *flags, "program.py"]
    real = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    ended = fresh.run(words, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (real.returncode, real.stdout, real.stderr)
    assert real.stderr.count("Warning: ['always', ") == 4


@forks
def test_what_only_a_process_of_its_own_can_be_is_one(tmp_path):
    assert forked()
    assert forked("-u", "-W", "ignore")
    assert not forked("-X", "dev")
    assert not forked(env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert not forked(env={**os.environ, "OMP_NUM_THREADS": "3"})
    assert not forked(env={**os.environ, "TRITON_INTERPRET": "1"})
    (tmp_path / "sitecustomize.py").touch()
    assert not forked(env={**os.environ, "PYTHONPATH": str(tmp_path)})


@forks
def test_ranks_of_torchrun_are_forks_that_it_waits_for_and_ends(tmp_path):
    (tmp_path / "ranks.py").write_text(
        "import os, signal, sys, time\n"
        "rank = int(os.environ['RANK'])\n"
        "print(rank, sys.argv[1:], os.getpgid(0) == os.getpid(), type(sys.meta_path[-2]).__name__)\n"
        "os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(100)\n"
    )
    ended = fresh.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "ranks.py", "é"], cwd=tmp_path
    )
    assert sorted(ended.stdout.splitlines()) == ["0 ['é'] True Held", "1 ['é'] True Held"]
    assert ended.returncode == 1
    assert "closing signal SIGTERM" in ended.stderr and "(exitcode: -9) local_rank: 1" in ended.stderr


@forks
def test_all_are_real_processes_where_that_is_asked_for(monkeypatch):
    assert forked()
    monkeypatch.setenv("FORKS", "0")
    assert not forked()


ARRIVING = """
import atexit, importlib.util, sys

def others():
    return sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names)

class Asked:
    def find_spec(name, path, target=None):
        if name in ("torch", "torch._dynamo"):
            print("asked for", name)

sys.meta_path.insert(0, Asked)
atexit.register(lambda: print(torch.utils.data._utils.python_exit_status))
print(others(), importlib.util.find_spec("torch").loader.get_filename())
{before}
import torch
print(others(), "_dynamo" in vars(torch), sys.modules["__mp_main__"] is sys.modules["__main__"])
print(torch.__spec__, torch.__loader__ is torch.__spec__.loader, torch.__spec__._initializing)
torch.optim.SGD([torch.ones(1)], lr=0.1)
print(others(), torch._dynamo, torch._dynamo.__spec__)
"""


@pytest.mark.parametrize(
    "before",
    ["", "import numpy; print(others())", "import typing_extensions; print('torch' in others())"],
    ids=["torch alone", "numpy before", "a part before"],
)
def test_torch_arrives_as_it_is_imported(before):
    """At its import, seen by whoever stands in the way, with all that comes with it and nothing else."""
    command = [sys.executable, "-c", ARRIVING.format(before=before)]
    real = subprocess.run(command, capture_output=True, text=True)
    ended = fresh.run(command)
    assert (_without_addresses(ended.stdout), ended.stderr) == (_without_addresses(real.stdout), real.stderr)
    assert real.stdout.count("asked for torch\n") == 2 and real.stdout.endswith("True\n")


def _without_addresses(text):
    return re.sub(r"0x\w+", "0x", text)


@pytest.mark.parametrize("name", ["numpy", "typing_extensions", "torch"])
def test_a_module_of_the_program_comes_before_one_of_the_same_name(tmp_path, name):
    (tmp_path / f"{name}.py").write_text("print('mine')")
    (tmp_path / "program.py").write_text(f"import {name}, sys; print({name}.__file__)")
    ended = fresh.run([sys.executable, "program.py"], cwd=tmp_path)
    assert (ended.stdout, ended.stderr) == (f"mine\n{tmp_path / name}.py\n", "")


def test_a_program_leaves_nothing_to_the_next():
    assert fresh.run([sys.executable, "-c", "import torch; torch.left = torch.manual_seed(1)"]).returncode == 0
    said = fresh.run(
        [sys.executable, "-c", "import torch, sys; print(hasattr(torch, 'left'), 'backsight' in sys.modules)"]
    )
    assert said.stdout == "False False\n"


def test_random_numbers_are_not_those_of_the_one_before():
    program = "import random, numpy; print(random.random(), numpy.random.rand())"
    first, second = (fresh.run([sys.executable, "-c", program]).stdout.split() for _ in range(2))
    assert not {*first} & {*second}


def test_a_program_that_does_not_end_is_ended_and_the_next_runs():
    with pytest.raises(subprocess.TimeoutExpired):
        fresh.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.5)
    assert fresh.run([sys.executable, "-c", "print(1)"]).stdout == "1\n"


def test_streams_may_go_elsewhere(tmp_path):
    program = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    assert fresh.run([sys.executable, "-c", program], stderr=subprocess.STDOUT).stdout == "out\nerr\n"
    with (tmp_path / "out").open("w+") as file:
        fresh.run([sys.executable, "-c", program], stdout=file.fileno(), check=True)
        assert file.seek(0) == 0 and file.read() == "out\n"
    with pytest.raises(subprocess.CalledProcessError):
        fresh.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)

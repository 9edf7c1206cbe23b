"""What `backsight run` says and where: people on a terminal, files, several ranks, tools."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import fresh
import pytest
import terminal
from surroundings import environment

from backsight.diagnosis import Finding, Report
from backsight.launch import voice

CARRIED = """
import torch
rnn = torch.nn.RNN(4, 4)
hidden = torch.zeros(1, 1, 4)
for step in range(3):
    output, hidden = rnn(torch.randn(3, 1, 4), hidden)
    loss = output.square().mean()
    loss.backward()
"""

FORGOTTEN = """
import torch
model, delta = torch.nn.Linear(2, 1), torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (model(torch.randn(4, 2)) + delta).square().mean().backward()
    optimizer.step()
"""

HEALTHY = FORGOTTEN.replace("list(", "").replace("model.parameters()", "[*model.parameters(), delta]")


@pytest.fixture
def train(bench):
    bench.write("carried.py", CARRIED)
    bench.write("forgotten.py", FORGOTTEN)
    bench.write("healthy.py", HEALTHY)
    return bench


def on_terminal(bench, *command: str, columns: int = 80, **env: str) -> str:
    """What `backsight run` writes to a terminal of so many columns, which is its stderr."""
    pytest.importorskip("pty")
    surroundings = {k: v for k, v in environment({}).items() if k not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    line = [sys.executable, "-m", "backsight", "run", *command]
    env = surroundings | {"TERM": "xterm-256color"} | env
    return terminal.written(line, columns=columns, stdout=False, cwd=bench.folder, env=env)[1]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\]8;[^\x1b]*\x1b\\", "", text)


FRAME = """\
╭─ backsight explains ─────────────────────────────────────────────────────────╮
│                                                                              │
│  error BS201  hidden, a tensor of shape 1×1×4, carries the graph of one      │
│  iteration into the next, and backward() has freed that graph.               │
│                                                                              │
│      carried.py:6                                                            │
│    4 │ hidden = torch.zeros(1, 1, 4)                                         │
│    5 │ for step in range(3):                                                 │
│  ❱ 6 │     output, hidden = rnn(torch.randn(3, 1, 4), hidden)                │
│      │                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^                │
│      │     ╰╴reads hidden from the previous iteration, still attached to     │
│      │       its graph, and assigns it for the next.                         │
│    7 │     loss = output.square().mean()                                     │
│  • 8 │     loss.backward()                                                   │
│      │     ╰╴backpropagates through this iteration into the graph of the     │
│      │       previous one, which is already freed.                           │
"""


class TestATerminal:
    def test_shows_the_code_in_a_frame_with_the_culprit_marked(self, train):
        written = on_terminal(train, "carried.py")
        assert FRAME in plain(written)
        assert "\x1b[1;31m❱ " in written

    def test_in_no_colours_where_none_are_wanted(self, train):
        written = on_terminal(train, "carried.py", NO_COLOR="1")
        assert FRAME in plain(written)
        assert not re.search(r"\x1b\[[0-9;]*3\dm", written)

    @pytest.mark.parametrize("columns", [60, 120, 200])
    @pytest.mark.needs()
    def test_fits_its_width_and_no_line_is_hard_to_read(self, train, columns):
        framed = plain(on_terminal(train, "carried.py", columns=columns)).partition("╭")[2]
        assert max(map(len, framed.splitlines())) == min(columns, 110) - (framed[0] == "╭")

    def test_findings_of_the_audits_likewise(self, train):
        written = plain(on_terminal(train, "forgotten.py"))
        assert "╭─ backsight found ─" in written and "│  warning BS101  delta requires grad, but no" in written


@pytest.mark.parametrize(
    "severities, title",
    [(("warning", "note"), "found"), (("error", "warning", "note"), "found 2 problems; fix them in this order")],
)
def test_a_note_is_not_counted_as_a_problem(severities, title, capsys):
    voice.show(
        Report(tuple(Finding(f"BS10{k}", each, "It is so.") for k, each in enumerate(severities))), explains=False
    )
    assert capsys.readouterr().err.strip().splitlines()[0] == f"backsight {title}"


class TestAFile:
    def test_gets_plain_text(self, train):
        ended = train.observed("carried.py", env={"NO_COLOR": ""})
        assert "\x1b" not in ended.err
        assert "\nbacksight explains\n------------------\nerror BS201  hidden, a tensor of shape 1×1×4" in ended.err
        assert "> carried.py:6  output, hidden = rnn(torch.randn(3, 1, 4), hidden)\n      reads hidden" in ended.err

    def test_that_cannot_hold_the_signs_gets_what_it_can(self, train):
        ended = train.observed("carried.py", env={"PYTHONIOENCODING": "ascii"})
        assert ended.status == 1 and "a tensor of shape 1\\xd71\\xd74, carries the graph" in ended.err


class TestRanks:
    """Three processes that share one stderr, as torchrun gives it to them."""

    def ended(self, bench, *command: str, together: int = 3) -> str:
        line = [sys.executable, "-m", "backsight", "run", *command]
        ranks = ({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(together)} for rank in range(together))
        with (bench.folder / "stderr").open("w+", encoding="utf-8") as shared:
            envs = [environment(rank) for rank in ranks]
            fresh.run_together(*[line] * together, envs=envs, cwd=bench.folder, stderr=shared.fileno())
            shared.seek(0)
            return shared.read()

    @pytest.mark.needs()
    def test_are_named_on_each_line_and_do_not_mix(self, train):
        ours = [line for line in self.ended(train, "carried.py").splitlines() if line.startswith("[rank")]
        order = [int(line[5]) for line in ours]
        assert sorted(set(order)) == [0, 1, 2]
        assert len([k for k, one in enumerate(order) if k == 0 or one != order[k - 1]]) == 3  # one block each
        blocks = ["\n".join(line.partition(":")[2] for line in ours if line[5] == str(rank)) for rank in range(3)]
        assert blocks[0] == blocks[1] == blocks[2]
        assert "\n backsight explains\n ------------------\n error BS201  hidden, a tensor" in blocks[0]

    def test_what_is_the_same_for_all_is_said_by_the_first(self, train):
        assert re.fullmatch(
            r"\[rank0\]: backsight: nothing found in 3 optimizer steps: .*\n", self.ended(train, "healthy.py")
        )

    @pytest.mark.needs()
    def test_write_whole_lines_of_json_without_a_prefix(self, train):
        text = self.ended(train, "--json", "carried.py")
        told = [json.loads(line) for line in text.splitlines() if line.startswith('{"backsight"')]
        assert sorted(each["rank"] for each in told) == [0, 1, 2]
        assert {(each["ranks"], each["code"]) for each in told} == {(3, "BS201")}

    @pytest.mark.needs()
    def test_and_to_one_file(self, train):
        self.ended(train, "--json-to", "said.jsonl", "carried.py")
        told = [json.loads(line) for line in (train.folder / "said.jsonl").read_text().splitlines()]
        assert sorted(each["rank"] for each in told) == [0, 1, 2]


@pytest.mark.process
@pytest.mark.slow
def test_torchrun_starts_it_on_every_rank(train):
    """As the README has it; PyTorch puts the same prefix before the lines of its traceback."""
    train.write(
        "ranks.py", CARRIED.replace("import torch\n", "import torch\ntorch.distributed.init_process_group('gloo')\n")
    )
    command = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(_free_port()))
    ended = train.python(*command, "-m", "backsight", "run", "ranks.py")
    assert ended.status != 0
    told = [line for line in ended.err.splitlines() if "error BS201" in line]
    assert told and all(line.startswith(("[rank0]: error BS201", "[rank1]: error BS201")) for line in told)


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


class TestJson:
    def told(self, text: str) -> list[dict]:
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"backsight": 1, ')]

    @pytest.mark.needs()
    def test_an_explanation_is_an_object_in_place_of_the_text(self, train):
        ended = train.observed("--json", "carried.py")
        (told,) = self.told(ended.err)
        assert "backsight explains" not in ended.err and ended.err.startswith("Traceback")
        about = ["backsight", "kind", "program", "rank", "ranks", "process", "thread", "caught"]
        finding = ["code", "severity", "title", "fix", "cure", "exact", "since", "source", "evidence", "edits"]
        assert list(told) == [*about, *finding]
        assert (told["kind"], told["program"], told["rank"], told["thread"]) == ("explanation", "carried.py", 0, None)
        assert told["source"]["file"] == str(Path(train.folder / "carried.py").resolve())
        assert told["source"]["line"] == 6

    def test_so_is_each_finding_of_the_audits(self, train):
        told = self.told(train.observed("--json", "forgotten.py").err)
        assert [(each["kind"], each["code"]) for each in told] == [("finding", "BS101")]

    def test_and_the_line_that_nothing_was_found(self, train):
        (told,) = self.told(train.observed("--json", "healthy.py").err)
        assert told["kind"] == "message" and told["text"].endswith("nothing found")
        assert train.observed("--json", "--quiet", "healthy.py").err == ""

    def test_an_error_of_a_thread_tells_which(self, train):
        train.write(
            "thread.py",
            "import runpy, threading, torch\nthreading.Thread(target=runpy.run_path, args=('carried.py',)).start()",
        )
        (told,) = [
            each for each in self.told(train.observed("--json", "thread.py").err) if each["kind"] == "explanation"
        ]
        assert told["thread"] == "Thread-1 (run_path)"

    @pytest.mark.needs()
    def test_a_file_gets_them_beside_the_text_wherever_the_program_goes(self, train):
        train.write(
            "goes.py",
            "import os, runpy\npath = os.path.abspath('carried.py')\nos.makedirs('there')\nos.chdir('there')\n"
            "runpy.run_path(path)",
        )
        ended = train.observed("--json-to", "said.jsonl", "goes.py")
        assert "\nbacksight explains\n" in ended.err
        again = train.observed("--json-to", "said.jsonl", "carried.py")
        assert "\nbacksight explains\n" in again.err
        told = self.told((train.folder / "said.jsonl").read_text())
        assert [each["program"] for each in told] == ["goes.py", "carried.py"]

    def test_a_file_that_cannot_be_written_is_told_once(self, train):
        ended = train.observed("--json-to", "nowhere/said.jsonl", "carried.py")
        assert ended.status == 1 and ended.err.count("backsight: no lines of JSON: FileNotFoundError") == 1
        assert "\nbacksight explains\n" in ended.err

    def test_every_field_has_its_line_in_the_docs(self, train):
        page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
        ended = train.observed("--json", "carried.py"), train.observed("--json", "healthy.py")
        for told in (each for run in ended for each in self.told(run.err)):
            inner = [told.get("source") or {}, *told.get("evidence", ())]
            assert [f for each in (told, *inner) for f in each if f"`{f}`" not in page] == []

    def test_options_behind_the_script_are_the_scripts(self, bench):
        bench.write("script.py", "import sys\nprint(sys.argv)")
        assert bench.observed("script.py", "--json").out == "['script.py', '--json']\n"

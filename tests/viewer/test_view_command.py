"""`backsight view` on the terminal."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from backsight.cli import main
from backsight.viewer.question import HOMES, QUESTIONS, answering


def command(*arguments):
    return [sys.executable, "-m", "backsight", "view", *map(str, arguments)]


def test_it_says_where_to_look_until_it_is_interrupted(runs):
    pytest.importorskip("uvicorn")
    with subprocess.Popen(command(runs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == f"backsight view  6 runs in {runs}\n"
        address = program.stdout.readline().strip()
        host, port, token = re.fullmatch(r"http://([\d.]+):(\d+)/\?token=(\S+)", address).groups()
        try:
            with closing(http.client.HTTPConnection(host, int(port), timeout=20)) as connection:
                connection.request("GET", "/api/runs", headers={"x-backsight-token": token})
                assert connection.getresponse().status == 200
            assert program.stdout.readline() == "  for this machine only; Ctrl-C ends it\n"
            program.send_signal(signal.SIGINT)
            _, error = program.communicate(timeout=20)
        finally:
            program.kill()  # a shell may have told it to ignore the interrupt
    assert (program.returncode, error) == (0, "")


def status(*arguments):
    """Run the command here, as another process takes seconds to import torch; return its exit status."""
    try:
        return main(["view", *map(str, arguments)])
    except SystemExit as left:
        return left.code


def test_a_folder_that_is_not_there_is_an_error(tmp_path, capsys):
    assert status(tmp_path / "nothing") == 2
    assert capsys.readouterr().err == (
        f"backsight: there is no folder {tmp_path / 'nothing'}. Record one: backsight run --record train.py\n"
    )


def test_a_port_that_is_taken_is_an_error(runs, server, capsys):
    assert status(runs, "--port", server.port) == 2
    assert f"Port {server.port} is not available: Address already in use." in capsys.readouterr().err


def test_a_port_is_a_number(runs, capsys):
    assert status(runs, "--port", "99999") == 2
    assert "a port must be a number from 0 to 65535, not '99999'" in capsys.readouterr().err


def test_a_report_is_written_instead(runs, tmp_path, capsys):
    assert status(runs / "first", "--report", tmp_path / "first.html") == 0
    said = capsys.readouterr()
    assert re.fullmatch(rf"{runs / 'first'} is in {tmp_path / 'first.html'} \([\d.]+ [KM]B\)\.\n", said.out)
    assert said.err == ""
    assert (tmp_path / "first.html").stat().st_size > 100_000


def test_without_the_extra_it_says_what_to_install(runs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert status(runs) == 2
    assert capsys.readouterr().err == (
        'backsight: the viewer needs starlette and uvicorn: pip install "backsight[view]".\n'
    )


def test_a_report_of_a_folder_says_which_runs_it_could_not_read_a_line_each(runs, tmp_path, capsys):
    there = shutil.copytree(runs, tmp_path / "runs")
    for name in ("a", "b"):
        (there / name / "rank-00000").mkdir(parents=True)
    assert status("--report", tmp_path / "all.html", there) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    assert [line.partition(" has no ")[0] for line in said.err.splitlines()] == [
        f"backsight: {there / name / 'rank-00000'}" for name in ("a", "b")
    ]


IMPORTED = """
import http.client, sys
from backsight.viewer import Library, Server

with Server(Library(sys.argv[1])) as server:
    def ask(path):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", path, headers={"x-backsight-token": server.token})
        answer = connection.getresponse()
        assert answer.status < 400, (path, answer.read())

    for path in ("/", "/api/runs", *("/api/ask/" + each for each in sys.argv[2:])):
        ask(path)
print("with PyTorch" if "torch" in sys.modules else "without")
"""

READ = [
    *("about?run=first", "settings?run=first", "metrics?run=first", "marks?run=first", "explain?run=first&code=BS301"),
    *("heatmap?run=first&kind=grad&stat=l2", "compare?run=first&with=again"),
    *(f"{each}?run=first&kind=weight&tensor=stem.weight" for each in ("lines", "related", "rows", "histograms")),
]


@pytest.mark.parametrize(("asked", "said"), [(READ, "without"), (["findings?run=first"], "with PyTorch")])
def test_what_only_reads_files_imports_no_pytorch(asked, said, runs):
    pytest.importorskip("uvicorn")
    done = subprocess.run([sys.executable, "-c", IMPORTED, str(runs), *asked], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (said, "")


def test_each_question_has_a_file_that_answers_it():
    assert {each: answering(each) for each in HOMES} == QUESTIONS

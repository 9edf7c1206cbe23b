"""`backsight explain`: the pages of the codes in the terminal; and a command that was mistyped."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backsight.cli import command_line, main
from backsight.tables.codes import page_of, pages, plain, refitted
from backsight.text import PIPED


def test_every_code_has_a_line_below_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines if line.startswith("BS")] == [*pages()] and len(lines) > 60
    index = (Path(__file__).parents[2] / "docs" / "codes" / "index.md").read_text()
    kinds = re.findall(r"^## (.*)$", index, re.MULTILINE)
    assert [line for line in lines if line and not line.startswith("BS")] == kinds
    assert lines[lines.index(kinds[2]) + 1].startswith("BS301 ")
    assert "BS201  backward through the graph a second time" in lines


@pytest.mark.parametrize("written", ["BS201", "bs201", "201"])
def test_the_page_of_a_code_is_printed_as_plain_text_without_what_is_for_the_docs(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", written]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"BS201: backward through the graph a second time\n{'=' * 47}\n\n")
    assert not re.search(r"^#|```|\*which", said, re.MULTILINE) and "\n\nWrong\n-----\n\n    import torch\n" in said
    assert "hidden = cell(torch.randn(4, 8), hidden.detach())" in said and "<!--" not in said


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("BS20l", "did you mean 'BS"),
        ("BS20", "did you mean 'BS200', 'BS201'"),
        ("BS999", "they go from BS101 to BS5"),
        ("BS999", ": `backsight explain` lists them"),
        ("bs21", "did you mean 'BS201', 'BS210', 'BS211'"),
        ("BS9", "codes have three digits: `backsight explain` lists them"),
        ("2011", "codes have three digits: `backsight explain` lists them"),
        ("BS299", "did you mean 'BS2"),
    ],
)
def test_a_code_that_there_is_not_ends_with_2_and_a_hint(
    written: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", written]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"backsight: there is no code {written!r}; ") and hint in said.err


def test_a_word_that_is_no_code_and_in_no_message_is_said_to_be_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "zzz"]) == 2
    assert capsys.readouterr().err == (
        "backsight: 'zzz' is neither a code nor an error message that is known; `backsight explain` lists all codes\n"
    )


MESSAGES = {
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [4]], which is output 0 of AddBackward0, is at version 1; expected version 0 instead.": "BS202",
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [8, 4, 10, 10]], which is output 0 of Exp, is at version 2; expected version 0 instead. Hint: "
    "enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False).": "BS202",  # longer than a file's name can be
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward.": "BS201",
    "one of the variables needed for gradient computation...": "BS202",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn": "BS203",
    "RuntimeError: Function 'PowBackward0' returned nan values in its 0th output.": "BS112",
    "AttributeError: 'float' object has no attribute 'backward'": "BS222",
    "mat1 and mat2 shapes cannot be multiplied (8x3 and 4x1)": "BS200",
    "error BS109  head.weight is frozen": "BS109",
}


@pytest.mark.parametrize(("message", "code"), MESSAGES.items(), ids=[*MESSAGES.values()])
def test_a_message_gets_the_page_of_its_code(message: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", message]) == 0
    said = capsys.readouterr().out
    assert main(["explain", *message.split()]) == 0, "as it is without quotes"
    assert capsys.readouterr().out == said
    assert said.startswith(f"{code}: ")
    of = f"\n\nThis is the page of {code}. With your own variables and lines: backsight run train.py\n"
    assert said.endswith(of) != (code in message)
    assert said.count("With your own") == said.endswith(of), "once, where a terminal shows it"


@pytest.mark.parametrize(
    ("saved", "first"),
    [
        ("[torch.FloatTensor [64, 64]], which is output 0 of AsStrided, is at version 2", "an optimizer steps"),
        ("[torch.cuda.HalfTensor [8, 3]], which is output 0\nof TBackward, is at version 5", "an optimizer steps"),
        ("[torch.FloatTensor [3, 4, 3, 3]] is at version 2", "an optimizer steps"),
        ("[torch.FloatTensor [8, 4]], which is output 0 of SigmoidBackward0, is at version 1", "\n"),
    ],
)
def test_a_page_with_two_programs_begins_with_the_one_that_the_message_is_of(
    saved: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "one of the variables needed for gradient computation has been modified by an inplace operation:"
    assert main(["explain", f"RuntimeError: {text} {saved}; expected version 0 instead."]) == 0
    wrong = capsys.readouterr().out.partition("\nWrong")[2]
    assert wrong.removeprefix(": ").startswith(first) and "Wrong" in wrong and wrong.count("Worth knowing") == 1


@pytest.mark.parametrize(
    "symptom", ["loss is nan", "loss: nan", "my loss becomes NaN after 3 steps", "the loss went to inf"]
)
def test_a_symptom_lists_the_codes_that_lead_to_its_cause(symptom: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", symptom]) == 0
    assert [line[:5] for line in capsys.readouterr().out.splitlines()] == ["BS112", "BS301", "BS309"]


def test_a_loss_that_is_a_number_is_no_symptom(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "the loss is finance data"]) == 2
    capsys.readouterr()


TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 5, in <module>
    loss.backward()
RuntimeError: grad can be implicitly created only for scalar outputs

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 7, in <module>
    raise ValueError("training failed") from e
ValueError: training failed
"""


def _explain(stdin: int | None) -> str:
    return subprocess.run([sys.executable, "-m", "backsight", "explain"], stdin=stdin, **_TEXT).stdout


_TEXT: Any = {"capture_output": True, "text": True, "check": True}


def test_without_an_argument_what_is_piped_in_is_explained(tmp_path: Path) -> None:
    held = tmp_path / "error.txt"
    held.write_text("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n")
    with held.open() as file:
        assert "\nThis is the page of BS203. " in _explain(file.fileno())
    with subprocess.Popen(["cat", str(held)], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None and "\nThis is the page of BS203. " in _explain(cat.stdout.fileno())


def test_an_empty_stdin_lists_the_codes() -> None:
    assert "\nBS101  " in _explain(subprocess.DEVNULL)


@pytest.mark.slow
def test_a_program_that_takes_long_to_fail_is_read_to_its_end_and_the_wait_is_told() -> None:
    command = [sys.executable, "-m", "backsight", "explain"]
    with subprocess.Popen(command, stdin=_PIPE, stdout=_PIPE, stderr=_PIPE, text=True) as explain:
        assert explain.stdin is not None and explain.stderr is not None
        waits = explain.stderr.readline()  # before anything has come
        explain.stdin.write("epoch 0\n" + TRACEBACK)
        said, _ = explain.communicate()
    assert waits == "backsight: reading a message from stdin, to its end (`< /dev/null` lists all codes)\n"
    assert explain.returncode == 0 and said.startswith("Raised at train.py:5, loss.backward().")


def test_a_wait_for_stdin_ends_with_ctrl_c_and_no_traceback() -> None:
    command = [sys.executable, "-m", "backsight", "explain"]
    with subprocess.Popen(command, stdin=_PIPE, stdout=_PIPE, stderr=_PIPE, text=True) as explain:
        assert explain.stderr is not None and explain.stderr.readline()
        explain.send_signal(signal.SIGINT)
        assert explain.wait() == 130 and explain.stderr.read() == ""


_PIPE = subprocess.PIPE


def test_a_traceback_may_come_from_a_file_or_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "error.txt"
    kept.write_text(TRACEBACK.replace("train.py", "fit.py"))
    assert main(["explain", str(kept)]) == 0
    of_file = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO(kept.read_text()))
    assert main(["explain", "-"]) == 0
    assert capsys.readouterr().out == of_file
    assert of_file.endswith("\n\nThis is the page of BS212. With your own variables and lines: backsight run fit.py\n")


MODIFIED = """Traceback (most recent call last):
  File "/home/me/gcn.py", line 43, in <module>
    loss.backward()
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: \
[torch.FloatTensor [40, 40]], which is output 0 of SigmoidBackward0, is at version 1; expected version 0 instead.
"""


def test_a_traceback_is_read_out_above_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(MODIFIED))
    assert main(["explain"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "A tensor of shape 40×40, created or last modified by Sigmoid, was modified in place once after it had been "
        "saved.\nRaised at /home/me/gcn.py:43, loss.backward().\nIts source was not read: there is no file gcn.py here."
        "\n\nBS202: "
    )
    assert said.count("backsight run /home/me/gcn.py") == 1, "at the end"


ARGMAX = """\
import sys

import torch

sys.exit("this must not run")


def fit(model, x, y):
    guess = model(x).argmax(1).float()
    error = (guess - y).square().mean()
    error.backward()


fit(torch.nn.Linear(4, 3), torch.randn(8, 4), torch.randn(8))
"""
OF_ARGMAX = """Traceback (most recent call last):
  File "fit.py", line 14, in <module>
    fit(torch.nn.Linear(4, 3), torch.randn(8, 4), torch.randn(8))
  File "fit.py", line 11, in fit
    error.backward()
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
  File "/venv/lib/python3.11/site-packages/torch/autograd/__init__.py", line 395, in backward
    _engine_run_backward(
RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
"""


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_the_source_that_a_traceback_names_is_read_and_not_run(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(ARGMAX)
    Path("error.txt").write_text("".join(f"{prefix}{line}" for line in OF_ARGMAX.splitlines(keepends=True)))
    assert main(["explain", "error.txt"]) == 0
    finding, _, more = capsys.readouterr().out.partition("\n\nThe whole page, with right code: ")
    assert more == "backsight explain BS203\nWith the values of your tensors: backsight run fit.py\n"
    assert " ".join(finding.split()).startswith(  # however wide the terminal is
        "Read from the source files that the traceback names, without running them: "
        "error BS203 The loss does not require grad: model(x).argmax(1) detached it from the graph. "
        "> fit.py:9 guess = model(x).argmax(1).float() "
        ".argmax() returns integer indices, which have no gradient. fit.py:11 error.backward() "
    )
    assert "  fit.py:11  error.backward()\n" in finding and "  (Inferred from the source text.)\n" in finding
    assert "  fix: " in finding and "Raised at" not in finding


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("error.backward()", "error.sum().backward()", "line 11 of fit.py is not what the traceback quotes."),
        ("def fit(", "def train(", "line 11 of fit.py is not in fit now."),
        ("import sys\n", "import (\n", "line 14 of fit.py is not in <module> now."),
    ],
)
def test_source_that_has_changed_is_not_read(
    before: str,
    after: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(ARGMAX.replace(before, after))
    Path("error.txt").write_text(OF_ARGMAX)
    assert main(["explain", "error.txt"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Raised at fit.py:11, error.backward().\nIts source was not read: {why}\n\nBS203: ")


def test_a_script_of_this_folder_is_named_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("error.txt").write_text(TRACEBACK.replace("train.py", f"{tmp_path}/my fit.py"))
    assert main(["explain", "error.txt"]) == 0
    assert "lines: backsight run 'my fit.py'\n" in capsys.readouterr().out


def test_a_file_that_there_is_not_is_no_code_either(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nofile.txt"]) == 2
    assert capsys.readouterr().err.startswith("backsight: there is no code and no file 'nofile.txt'; ")


def test_words_without_quotes_are_a_message_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *["element", "0", "of", "tensors", "does", "not", "require", "grad"]]) == 0
    assert "BS203: " in capsys.readouterr().out


def test_a_message_that_no_page_is_about_ends_with_2_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ValueError: bad batch 3"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("backsight: no page is about this message. `backsight run train.py` ")


def test_of_a_script_it_says_what_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\nloss = torch.ones(3, requires_grad=True).sum()\nloss.backward()\n")
    assert main(["explain", "train.py"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "backsight: train.py holds no error message; to have it run: backsight run train.py\n"


def test_a_word_lists_the_codes_that_are_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nan"]) == 0
    assert "BS112  where NaN or infinity first appeared\n" in capsys.readouterr().out
    assert main(["explain", "leak"]) == 0, "no title has it, but pages do"
    assert "BS111  graphs pile up\n" in capsys.readouterr().out


@pytest.mark.parametrize("said", ["loss is nan", "my gradients are NaN", "Loss became inf"])
def test_what_somebody_says_of_nan_lists_the_pages_about_it(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", said]) == 0
    assert [each[:5] for each in capsys.readouterr().out.splitlines()] == ["BS112", "BS301", "BS309"]


def test_several_codes_print_a_page_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "BS201", "bs-202"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("BS201: ") and "\nBS202: " in said


def test_a_table_of_a_page_is_lines_without_its_frame(capsys: pytest.CaptureFixture[str]) -> None:
    with_table = next(code for code, page in pages().items() if "|---|" in page.read_text(encoding="utf-8"))
    assert main(["explain", with_table]) == 0
    said = capsys.readouterr().out
    assert "|--" not in said and not re.search(r"^\|", said, re.MULTILINE) and " | " in said


def test_links_are_told_as_a_terminal_can_follow_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "BS111"]) == 0
    said = capsys.readouterr().out
    assert "see leaks (docs/leaks.md)" in said and "](" not in said


def test_on_a_terminal_it_is_laid_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", "BS201"]) == 0
    said = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "```" not in said and "[BS202](" not in said and "hidden.detach()" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("code", ["BS102", "BS201", "BS301"])
@pytest.mark.parametrize("room", [40, 74, 150])
def test_what_is_quoted_fits_the_terminal_and_keeps_its_words(code: str, room: int) -> None:
    quoted = re.findall(r"```text\n(.*?)```", page_of(code) or "", re.DOTALL)
    assert quoted
    for each in quoted:
        told = refitted(each, room)
        assert told.split() == each.split()
        assert all(len(row) <= room or len(row.split()) == 1 for row in told.splitlines())
        if room > 110:
            assert len(told.splitlines()) <= len(each.splitlines())


def test_only_a_line_that_had_no_room_for_the_next_word_goes_on_in_the_next() -> None:
    full = "  " + "word " * 20 + "and seven"
    quoted = f"{full}\n  continued.\n  fix: short.\n  at train.py:3\n"
    assert refitted(quoted, 150) == f"{full} continued.\n  fix: short.\n  at train.py:3\n"


def test_a_marked_line_goes_on_below_its_text_and_ends_the_line_before() -> None:
    full, marked = "  " + "word " * 20 + "and seven", "> train.py:3  y = x"
    assert refitted(f"{full}\n{marked}\n", 150) == f"{full}\n{marked}\n"
    assert refitted(f"{marked}\n", 17) == "> train.py:3  y =\n  x\n"


def test_code_that_looks_like_a_link_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["explain", "BS133"]) == 0
    assert 'model["base"](x)' in re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert 'model["base"](x)' in (page_of("BS133") or "")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["runz"], "there is no command 'runz'; did you mean 'run' or 'runs'?"),
        (["train.py", "--lr", "1"], "'train.py' is not a command; to run a script: backsight run train.py"),
        (["zzz"], "there is no command 'zzz'; `backsight --help` lists the commands\n"),
        (["recrod"], "; did you mean 'record'? In a program: backsight.record(model, optimizer); for a script: backs"),
        (["--verson"], "backsight: error: there is no option '--verson'; did you mean '--version'?\n"),
        (["graph"], "there is no command 'graph'; in a program: backsight.graph(loss)\n"),
        (["record"], "for a script: backsight run --record train.py\n"),
        (["runs", "shw"], "there is no folder 'shw'; did you mean 'runs show'?"),
        (
            ["run", "--recrod", "train.py"],
            "backsight run: error: there is no option '--recrod'; did you mean '--record'?",
        ),
        (
            ["run", "--record=/tmp/x", "train.py"],
            "backsight run: error: --record takes no value; to record into a folder: --record --run /tmp/x\n",
        ),
        (["run", "--quiet=1", "train.py"], "backsight run: error: --quiet takes no value\n"),
        (["view", "--prot=8"], "backsight view: error: there is no option '--prot=8'; did you mean '--port'?"),
        (["runs", "show", "--zzz"], "there is no option '--zzz'; `backsight runs show --help` lists the options\n"),
        (["doctor", "BS201"], "backsight doctor: error: one argument too many: 'BS201'\n"),
    ],
)
def test_a_mistyped_command_or_option_gets_the_one_that_was_meant(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err


def test_without_a_word_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert capsys.readouterr().err == command_line().format_help()


HELP = (
    [],
    *(
        [command]
        for command in ("run", "fix", "runs", "view", "diff", "top", "forecast", "verify", "doctor", "demo", "explain")
    ),
    *(["runs", command] for command in ("show", "audit", "export")),
)


def test_each_command_is_asked_for_help() -> None:
    assert {" ".join(words) for words in HELP if words} == set(command_line().commands)


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_fits_one_screen(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert len(lines) > 6  # what it is for, and its options


def test_the_list_of_commands_says_what_can_be_explained_and_that_verify_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert re.search(r"^    explain +explain a finding \(BS201\) or an error message$", said, re.MULTILINE)
    assert re.search(r"^    verify +test whether gradients are correct$", said, re.MULTILINE) and "prove" not in said


def test_a_page_in_a_file_is_as_wide_as_all_that_goes_there() -> None:
    page = "# A\n" + "A sentence of `code` and more. " * 9 + "\n\n- an item " + "of many words " * 12 + "\n- another\n"
    title, line, *prose = plain(page + "  goes on\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").splitlines()
    assert (title, line) == ("A", "=")
    assert max(map(len, prose)) <= PIPED and len(prose[0]) > PIPED - 12
    assert [row for row in prose if "many" in row][1].startswith("  ")
    assert prose[-4:] == ["- another goes on", "", "a | b", "1 | 2"]


def test_pages_of_findings_keep_to_that_width(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "BS201"]) == 0
    prose = [row for row in capsys.readouterr().out.splitlines() if not row.startswith("    ")]
    assert max(map(len, prose)) <= PIPED


IN_PLACE = """
import torch
from torch.nn import functional as F
w = torch.ones(1, 1, 4, 4, requires_grad=True)
alpha = w * 2
alive = F.max_pool2d(alpha, 3)
alpha.clamp_(0, 1)
alive.sum().backward()
"""


def test_the_one_call_of_what_modified_a_tensor_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(IN_PLACE)
    ended = subprocess.run([sys.executable, "fit.py"], capture_output=True, text=True, check=False)
    Path("error.txt").write_text(ended.stderr)
    assert main(["explain", "error.txt"]) == 0
    said = capsys.readouterr().out
    assert "  clamp created it, or modified it last.\n" in said
    assert "fit.py:7  alpha.clamp_(0, 1)\n      is the only call of clamp_() in the program.\n" in said


@pytest.mark.parametrize("kind", ["UnicodeDecodeError", "KeyboardInterrupt", "nothing.Known"])
def test_an_error_of_a_class_that_a_message_alone_does_not_make_is_read_all_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(ARGMAX)
    Path("error.txt").write_text(OF_ARGMAX.replace("RuntimeError", kind))
    assert main(["explain", "error.txt"]) == 0
    assert "BS203" in capsys.readouterr().out

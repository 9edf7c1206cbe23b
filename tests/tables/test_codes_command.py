"""`backsight explain`: the pages of the codes in the terminal; and a command that was mistyped."""

from __future__ import annotations

import re

import pytest

from backsight.cli import main
from backsight.tables.codes import pages


def test_every_code_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == [*pages()] and len(lines) > 60
    assert "BS201  backward through the graph a second time" in lines


@pytest.mark.parametrize("written", ["BS201", "bs201", "201"])
def test_the_page_of_a_code_is_printed_as_it_stands_without_what_is_for_the_docs(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", written]) == 0
    said = capsys.readouterr().out
    assert said.startswith("# BS201: backward through the graph a second time")
    assert "hidden = cell(torch.randn(4, 8), hidden.detach())" in said and "<!--" not in said


@pytest.mark.parametrize(("written", "hint"), [("BS20l", "close to it: BS"), ("nan", "`backsight explain` lists")])
def test_a_code_that_there_is_not_ends_with_2_and_a_hint(
    written: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", written]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"backsight: there is no code {written!r}; ") and hint in said.err


def test_on_a_terminal_it_is_laid_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", "BS201"]) == 0
    said = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "```" not in said and "[BS202](" not in said and "hidden.detach()" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["train.py", "--lr", "1"], "'train.py' is no command; to run a script: backsight run train.py"),
        (["zzz"], "there is no command 'zzz'\n"),
    ],
)
def test_a_mistyped_command_gets_the_one_that_was_meant(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err

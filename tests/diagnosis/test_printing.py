"""How a finding looks: text in a file, frames of code on a terminal, HTML in a notebook, data for programs."""

import copy
import io
import json
import os
import pickle
import re

import pytest
from failures import explained
from rich.console import Console

import backsight as bs
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Evidence, doubt
from backsight.findings.printing.data import from_data
from backsight.findings.printing.excerpt import excerpts
from backsight.source import Place
from backsight.source.edits import OR, lines_of, move, put, remove, write
from backsight.tracing import Line

CARRIED = """
    model = torch.nn.RNN(2, 2)
    hidden = torch.zeros(1, 1, 2)

    for step in range(3):
        # a step
        output, hidden = model(torch.randn(4, 1, 2), hidden)
        loss = output.sum()
        loss.backward()
"""

PLAIN = """\
error BS201  hidden, a tensor of shape 1×1×2, carries the graph of one iteration into the next, and backward()
has freed that graph.
> train.py:6  output, hidden = model(torch.randn(4, 1, 2), hidden)
      reads hidden from the previous iteration, still attached to its graph, and assigns it for the next.
  train.py:8  loss.backward()
      backpropagates through this iteration into the graph of the previous one, which is already freed."""

FRAMED = """\
error BS201  hidden, a tensor of shape 1×1×2, carries the graph of one iteration
into the next, and backward() has freed that graph.

    train.py:6
  4 │ for step in range(3):
  5 │     # a step
❱ 6 │     output, hidden = model(torch.randn(4, 1, 2), hidden)
    │                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    │     ╰╴reads hidden from the previous iteration, still attached to its
    │       graph, and assigns it for the next.
  7 │     loss = output.sum()
• 8 │     loss.backward()
    │     ╰╴backpropagates through this iteration into the graph of the previous
    │       one, which is already freed.
"""


@pytest.fixture
def finding() -> bs.Finding:
    return explained(CARRIED)


def on_terminal(finding: bs.Finding, width: int = 80, color: bool = False, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    console = Console(file=file, width=width, force_terminal=True, color_system="standard" if color else None)
    console.print(finding, highlight=False, emoji=False, markup=False)
    file.seek(0)
    return "\n".join(line.rstrip() for line in file.read().split("\n"))


def rows(tmp_path, source: str, *story: tuple[int, int, str], at: int | None = None) -> list[str]:
    """The rows of the only excerpt, as number, sign and text, with what is said of each."""
    file = tmp_path / "made.py"
    file.write_text(source)
    lines = source.splitlines()
    told = [(Place(str(file), first, lines[first - 1].strip(), end=last), says) for first, last, says in story]
    (excerpt,) = excerpts(told, f"made.py:{at}" if at else None)
    signs = {"culprit": "❱", "involved": "•", "context": " "}
    out = []
    for row in excerpt.rows:
        out.append("⋮" if row.number is None else f"{signs[row.part]}{row.number} {row.text}")
        out += [f"-- {f'{note.number}. ' if note.number else ''}{note.says}" for note in row.notes]
    return out


class TestText:
    def test_is_what_a_file_gets(self, finding):
        assert str(finding).startswith(PLAIN)
        file = io.StringIO()
        Console(file=file, width=110).print(finding)
        assert "\n".join(line.rstrip() for line in file.getvalue().splitlines()).startswith(PLAIN)

    def test_evidence_that_knows_its_place_is_text_all_the_same(self):
        line = Evidence("frees the graph.", Place("/home/you/train.py", 41, "loss.backward()"))
        assert str(line) == "train.py:41  loss.backward()\n    frees the graph."
        assert str(Evidence("It was freed.")) == "It was freed."

    def test_the_line_at_fault_is_marked_among_several_and_its_place_said_once(self):
        story = (Evidence("counts.", HERE), Evidence("fails.", THERE), "It fails.")
        for source, signs in (("train.py:4", "> "), ("train.py:9", " >")):
            lines = str(bs.Finding("BS1", "error", "Something.", story, "Do it.", source)).splitlines()
            assert lines[1:] == [
                f"{signs[0]} train.py:4  counts += 1",
                "      counts.",
                f"{signs[1]} train.py:9  loss.backward()",
                "      fails.",
                "  It fails.",
                "  fix: Do it.",
            ]

    def test_and_needs_no_mark_where_there_is_no_other(self):
        lines = str(bs.Finding("BS1", "error", "Something.", (Evidence("counts.", HERE),), source="train.py:4"))
        assert lines.splitlines()[1:] == ["  train.py:4  counts += 1", "      counts."]

    def test_the_mark_is_before_the_first_line_of_a_long_statement_alone(self):
        long = Place("train.py", 4, "counts = " + " + ".join(["count"] * 20))
        story = (Evidence("counts.", long), Evidence("fails.", THERE))
        text = str(bs.Finding("BS1", "error", "It.", story, source=str(long)))
        assert [line[:2] for line in text.splitlines()[1:4]] == ["> ", "  ", "  "]
        assert max(map(len, text.splitlines())) <= 110

    def test_and_survives_a_copy_and_a_pickle(self):
        line = Evidence("is a call.", Place("train.py", 41, "f(\na)", end=42), "read")
        for other in (copy.deepcopy(line), pickle.loads(pickle.dumps(line))):
            assert (other, other.place.last, other.certainty) == (line, 42, "read")


HERE, THERE = Place("train.py", 4, "counts += 1"), Place("train.py", 9, "loss.backward()")


class TestDoubt:
    """What was only read is said once, by whoever shows the finding, and by nobody where nothing was."""

    def finding(self, *evidence: Evidence | str) -> bs.Finding:
        return bs.Finding("BS1", "error", "Something.", evidence, "Do it.", exact=False)

    def test_names_the_lines_where_others_are_certain(self):
        said = self.finding(Evidence("counts.", HERE, "read"), Evidence("fails.", THERE))
        for text in (str(said), on_terminal(said), said._repr_html_()):
            assert text.count("(Inferred from the source text: line 4.)") == 1

    def test_says_it_of_all_where_all_is_read(self):
        said = self.finding(Evidence("counts.", HERE, "read"), "It fails.")
        assert str(said).count("(Inferred from the source text.)") == 1

    def test_names_the_files_where_there_are_several(self):
        other = Place("/home/you/model.py", 2, "x += 1")
        told = (Evidence("counts.", HERE, "read"), Evidence("adds.", other, "read"), Evidence("fails.", THERE))
        assert doubt(told) == "(Inferred from the source text: train.py:4 and model.py:2.)"

    def test_is_silent_about_what_was_seen_and_what_is_proven(self):
        said = self.finding(Evidence("counts.", HERE, "seen"), Evidence("fails.", THERE, "held"), "It fails.")
        assert "Read from" not in f"{said}{on_terminal(said)}{said._repr_html_()}"

    def test_a_line_that_a_watch_has_noted_was_seen(self):
        line = Line("train.py", 4, 4, "step", text="counts += 1")
        assert shown(line, "counts.").certainty == shown(line.place, "counts.").certainty == "seen"
        assert (shown(HERE, "counts.").certainty, shown(line, "counts.", "read").certainty) == ("held", "read")


class TestTerminal:
    def test_shows_the_lines_with_the_culprit_marked(self, finding):
        assert on_terminal(finding).startswith(FRAMED)

    def test_colours_and_without_them_the_same_text(self, finding):
        colored = on_terminal(finding, color=True)
        assert "\x1b[" in colored
        assert re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", colored) == on_terminal(finding)

    @pytest.mark.parametrize("width", [40, 60, 80, 120])
    def test_no_line_is_wider_than_the_terminal(self, finding, width):
        lines = on_terminal(finding, width).splitlines()
        assert max(map(len, lines)) <= width
        assert "hidden = hidden.detach()" in " ".join(line.strip() for line in lines)

    def test_signs_of_ascii_where_there_is_nothing_else(self, finding):
        shown = on_terminal(finding, encoding="ascii")
        assert "> 6 |     output, hidden" in shown and "    |     `- reads hidden" in shown
        assert all(char.isascii() for line in shown.splitlines()[3:] for char in line)

    def test_the_source_is_not_said_twice(self, finding):
        for text in (on_terminal(finding), str(finding), finding._repr_html_()):
            assert finding.source == "train.py:6" and "at train.py:6" not in text

    def test_nor_that_of_a_statement_whose_text_cannot_be_read(self):
        where = Evidence("did it.", Place("gone.py", 3, ""))
        unread = bs.Finding("BS1", "note", "Something.", (where,), source="gone.py:3")
        for text in (on_terminal(unread), str(unread), unread._repr_html_()):
            assert text.count("gone.py:3") == 1

    def test_and_is_said_where_it_is_not_among_the_lines(self):
        other = bs.Finding("BS1", "note", "Something.", ("Said.", Evidence("counts.", HERE)), source="other.py:3")
        assert "  at other.py:3" in on_terminal(other) and "  at other.py:3" in str(other)
        assert 'at <span class="code">other.py:3' in other._repr_html_()


class TestExcerpts:
    SOURCE = "def f():\n    a = 1\n\n\n\n\n\n\n    b = (\n        2,\n    )\n    return a\n"

    def test_leaves_out_what_is_far_from_all_of_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert rows(tmp_path, self.SOURCE, (2, 2, "one"), (9, 11, "two"), at=9) == [
            " 1 def f():",
            "•2     a = 1",
            "-- one",
            "⋮",
            "❱9     b = (",
            "❱10         2,",
            "❱11     )",
            "-- two",
            " 12     return a",
        ]

    def test_two_lines_between_are_shown_and_three_are_left_out(self, tmp_path):
        source = "".join(f"{n} + n\n" for n in range(1, 10))
        near, far = (rows(tmp_path, source, (1, 1, "one"), (end, end, "two")) for end in (8, 9))
        assert ("⋮" in near, "⋮" in far) == (False, True)

    def test_numbers_a_story_that_is_not_told_in_the_order_of_lines(self, tmp_path):
        told = rows(tmp_path, "a\nb\nc\n", (3, 3, "first"), (1, 1, "second"))
        assert told == ["•1 a", "-- 2. second", " 2 b", "•3 c", "-- 1. first"]

    def test_several_things_said_of_one_line(self, tmp_path):
        assert rows(tmp_path, "a; b\n", (1, 1, "one"), (1, 1, "two")) == ["•1 a; b", "-- one", "-- two"]

    def test_the_middle_of_a_long_statement_is_left_out(self, tmp_path):
        source = "f(\n" + "".join(f"    {k},\n" for k in range(20)) + ")\n"
        shown = rows(tmp_path, source, (1, 22, "is long"))
        assert shown == ["•1 f(", *(f"•{k + 2}     {k}," for k in range(5)), "⋮", "•22 )", "-- is long"]

    def test_a_file_that_was_edited_since_shows_the_statement_alone(self, tmp_path):
        (tmp_path / "made.py").write_text("something\nelse\n")
        (excerpt,) = excerpts([(Place(str(tmp_path / "made.py"), 2, "loss.backward()"), "ran.")], None)
        assert [(row.number, row.text) for row in excerpt.rows] == [(2, "loss.backward()")]

    def test_a_file_that_is_gone_likewise(self):
        (excerpt,) = excerpts([(Place("gone.py", 7, "loss.backward()"), "ran.")], "gone.py:7")
        assert [(row.number, row.text, row.part) for row in excerpt.rows] == [(7, "loss.backward()", "culprit")]

    def test_control_characters_do_not_reach_the_terminal(self, tmp_path):
        assert rows(tmp_path, "a = '\x1b[2J'\t# tab\n", (1, 1, "one"))[0] == "•1 a = ' [2J'  # tab"


class TestHtml:
    def test_marks_the_lines_and_says_so_to_a_screen_reader(self, finding):
        html = finding._repr_html_()
        assert 'aria-label="backsight: error BS201"' in html
        assert '<mark class="row culprit"><span class="sign" role="img" aria-label="culprit:">' in html
        assert html.count("<mark ") == 2

    def test_reads_as_the_terminal_does_without_its_styles(self, finding):
        code, *_ = re.findall(r"<pre[^>]*>(.*?)</pre>", finding._repr_html_(), re.DOTALL)
        text = re.sub(r"<[^>]*>", "", code)
        assert "❱ 6 │     output, hidden = model(torch.randn(4, 1, 2), hidden)\n    │     ╰╴reads hidden" in text

    def test_nothing_of_the_users_becomes_a_tag(self):
        nasty = "<script>alert(1)</script>"
        where = Evidence(nasty, Place(f"{nasty}.py", 1, nasty))
        html = bs.Finding("BS1", "error", nasty, (where, nasty), nasty, nasty)._repr_html_()
        assert "<script" not in html and html.count("&lt;script&gt;") >= 6

    def test_a_report_shows_each_finding_or_that_there_is_none(self, finding):
        assert bs.Report((finding, finding))._repr_html_().count("<section") == 2
        assert "nothing found in 3 operations" in bs.Report((), "3 operations")._repr_html_()


class TestData:
    def test_the_old_name_of_the_fix_warns(self, finding):
        with pytest.warns(DeprecationWarning, match="use finding.fix") as warned:
            assert finding.cure == finding.fix
        assert warned[0].filename == __file__

    def test_has_every_field_and_where_it_is(self, finding):
        data = json.loads(json.dumps(finding.to_dict()))
        assert list(data) == [
            "code",
            "severity",
            "title",
            "fix",
            "cure",
            "exact",
            "since",
            "source",
            "evidence",
            "edits",
        ]
        assert data["source"].pop("file").endswith("/train.py")
        assert data["source"] == {"text": "train.py:6", "line": 6, "end_line": 6}
        assert data["evidence"][1]["says"].startswith("backpropagates through this iteration")
        assert (data["evidence"][1]["line"], data["evidence"][1]["code"]) == (8, "loss.backward()")
        assert set(data["evidence"][-1]) == {"text", "certainty"}

    def test_a_source_that_no_evidence_tells_has_its_text_only(self):
        data = bs.Finding("BS1", "note", "Something.", source="other.py:3").to_dict()
        assert data["source"] == {"text": "other.py:3", "file": None, "line": None, "end_line": None}

    def test_has_the_edits_of_each_alternative_as_data(self):
        (four,) = lines_of("gone.py", 4)
        fix = f"Write `a = 2`{write(four, 'a = 2')}. {OR}Or remove line 4{remove(four)}."
        data = json.loads(json.dumps(bs.Finding("BS100", "note", "Something.", fix=fix).to_dict()))
        assert [each.kind for edits in from_data(data).edits for each in edits] == ["write", "remove"]
        (edit,), _ = data["edits"]
        assert from_data({**data, "edits": [[{**edit, "file": 3}]]}).edits == ()
        assert os.path.isabs(edit.pop("file"))
        assert edit == {"kind": "write", "lines": [4], "code": "a = 2", "old": "", "where": "below", "line": 0}

    def test_keeps_the_statements_and_which_one_is_the_culprit(self, finding):
        data = json.loads(json.dumps(finding.to_dict()))
        assert str(from_data(data)) == str(finding)
        assert [each.place.line for each in from_data(data).evidence if each.place] == [6, 8]

    def test_finds_the_culprit_again_from_another_folder(self, finding, tmp_path, monkeypatch):
        data = json.loads(json.dumps(finding.to_dict()))
        monkeypatch.chdir(tmp_path)
        culprits = [line.strip() for line in str(from_data(data)).splitlines() if line.startswith(">")]
        assert len(culprits) == 1

    def test_of_statements_that_were_damaged_keeps_the_text(self, finding):
        data = json.loads(json.dumps(finding.to_dict()))
        for each in data["evidence"]:
            each["line"] = "6"
        assert [each.place for each in from_data(data).evidence] == [None] * len(data["evidence"])

    def test_of_a_report(self, finding):
        assert bs.Report((finding,), "x").to_dict() == {"findings": [finding.to_dict()], "looked_at": "x"}


def _luminance(color: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    digits = color if len(color) == 6 else "".join(2 * digit for digit in color)
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["_LIGHT", "_DARK"])
def test_every_colour_of_the_html_can_be_read_on_what_it_stands_on(theme):
    from backsight.findings.printing import page

    colors = dict(re.findall(r"--(\w+):#(\w+)", getattr(page, theme)))
    pairs = [
        (ink, ground) for ink in ("ink", "soft", "error", "warning", "note", "fix") for ground in ("page", "panel")
    ]
    pairs += [("ink", "lit"), ("ink", "near"), ("soft", "lit"), ("soft", "near"), ("error", "lit"), ("note", "near")]
    for ink, ground in pairs:
        light, dark = sorted((_luminance(colors[ink]), _luminance(colors[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_text_stays_together_and_code_stands_apart():
    where = Evidence("frees it.", Place("gone.py", 2, "loss.backward()"))
    finding = bs.Finding("BS1", "note", "Something.", ("One.", "Two.", where, "Three.", "Four."), "Do it.", "gone.py:2")
    assert on_terminal(finding).splitlines() == [
        "note BS1  Something.",
        "  One.",
        "  Two.",
        "",
        "    gone.py:2",
        "❱ 2 │ loss.backward()",
        "    │ ^^^^^^^^^^^^^^^",
        "    │ ╰╴frees it.",
        "",
        "  Three.",
        "  Four.",
        "",
        "  fix: Do it.",
    ]
    text = bs.Finding("BS1", "note", "Something.", ("One.",), "Do it.")
    assert on_terminal(text).splitlines() == ["note BS1  Something.", "  One.", "  fix: Do it."]


class TestTheFixAsADiff:
    TEXT = "h = relu(x)\nfor x in xs:\n    h.add_(1)\n    loss = f(h)\n    loss.backward()\n"

    @pytest.fixture
    def shown(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "net.py").write_text(self.TEXT)

        def shown(fix: str, source: str = "net.py:3") -> list[str]:
            where = Evidence("does it.", Place("net.py", 3, "h.add_(1)"))
            self.finding = bs.Finding("BS1", "error", "It.", (where,), fix, source)
            below = on_terminal(self.finding).partition("fix: ")[2].splitlines()[1:]
            return [line.removeprefix("      ") for line in below]

        return shown

    def test_of_the_statement_that_is_written_anew(self, shown):
        (three,) = lines_of("net.py", 3)
        assert shown(f"Write h = h.add(1){write(three, 'h = h.add(1)')}.") == ["- h.add_(1)", "+ h = h.add(1)"]
        assert "<del>- h.add_(1)</del>\n<ins>+ h = h.add(1)</ins>" in self.finding._repr_html_()

    def test_of_all_that_the_first_alternative_changes(self, shown):
        one, three, five = lines_of("net.py", 1, 3, 5)
        fix = f"Do both{remove(three)}{put('h.clear()', 'below', five)}. {OR}Or this{write(one, 'h = x')}."
        assert shown(fix) == ["- h.add_(1)", "+ h.clear()"]
        assert shown(f"Do it outside{put('h = 1', 'beside', lines_of('net.py', 2)[0])}.") == ["+ h = 1"]

    def test_not_of_many_lines_nor_of_one_that_moves(self, shown):
        two, three, five = lines_of("net.py", 2, 3, 5)
        assert shown(f"Move it{move(three, 'below', five)}.") == []
        four = "\n".join(f"{name} = 1" for name in "abcd")
        assert shown(f"Put it there{put(four, 'above', two)}.") == []

    def test_not_where_the_words_alone_ask_for_it(self, shown):
        assert shown("On line 3, write `h = h.add(1)`.") == []

    def test_not_in_a_file_that_has_changed_since_or_is_gone(self, shown, tmp_path):
        fix = f"Write h = h.add(1){write(lines_of('net.py', 3)[0], 'h = h.add(1)')}."
        (tmp_path / "net.py").write_text("# mended\n" + self.TEXT)
        assert not [line for line in shown(fix) if line.startswith(("- ", "+ "))]
        (tmp_path / "net.py").unlink()
        assert not [line for line in shown(fix) if line.startswith(("- ", "+ "))]


def test_the_line_of_a_finding_is_shown_where_no_evidence_has_a_statement(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("x = 1\nh = relu(x).detach()\nreturn_ = h\n")
    finding = bs.Finding("BS1", "warning", "It.", ("Its result ends at `relu(x).detach()`.",), "", "net.py:2")
    lines = on_terminal(finding).splitlines()
    assert lines[-4:] == [
        "  1 │ x = 1",
        "❱ 2 │ h = relu(x).detach()",
        "    │     ^^^^^^^^^^^^^^^^",
        "  3 │ return_ = h",
    ]

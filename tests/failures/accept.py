"""What is said of each failing script, as it was last accepted, word for word: `NAME.txt` beside `NAME.py`.

What is said of a form of its cause is there too, as far as it differs. The scripts of examples/broken are among them.

python tests/failures/accept.py            run every script, show what has changed, and accept it
python tests/failures/accept.py NAME ...   the scripts whose name contains one of these

Read each difference before it is committed: a text that is accepted is what users see.
"""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path

from running import Told, told
from scripts import ROOT, Script, examples, scripts

from backsight.source.edits import Alternative, in_words

AFTER, WATCHED, FORM = "after the fact", "under watch", "or: "
_SAME = "The same."


def text_of(found: Told) -> str:
    """What is said, and below it what its fix asks for as edits, a line for each alternative."""
    edits = found.finding.edits if found.finding else ()
    return "\n".join([str(found.finding or "Nothing is said."), *(f"  edits: {told_of(each)}" for each in edits)])


def told_of(alternative: Alternative) -> str:
    return "; ".join(map(in_words, alternative))


def page(after: str, watched: str, forms: dict[str, str]) -> str:
    """What is accepted of a script, as its file has it: of each form of its cause, the lines that are others."""
    others = "".join(f"\n# {FORM}{form}\n\n{others_of(text, after)}\n" for form, text in forms.items())
    return f"# {AFTER}\n\n{after}\n\n# {WATCHED}\n\n{_SAME if watched == after else watched}\n{others}"


def accepted(script: Script, watched: bool) -> str:
    """The text that was accepted last; empty if none was."""
    first, _, second = _sections(script)[0].partition(f"\n\n# {WATCHED}\n\n")
    return second if watched and second != _SAME else first


def accepted_form(script: Script, form: str) -> str:
    """What was accepted last of a form of the cause; empty if nothing was."""
    return next((text for text in _sections(script)[1:] if text.startswith(f"{form}\n\n")), "").partition("\n\n")[2]


def _sections(script: Script) -> list[str]:
    file = golden(script)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text.removeprefix(f"# {AFTER}\n\n").removesuffix("\n").split(f"\n\n# {FORM}")


def others_of(text: str, after: str) -> str:
    """The lines of what is said of a form that are not said of the script as it stands."""
    return "\n".join(line for line in text.splitlines() if line not in after.splitlines()) or _SAME


def of_forms(script: Script) -> dict[str, str]:
    return {form: text_of(told(script, watched=False, form=form)) for form in script.forms}


def golden(script: Script) -> Path:
    """The file beside a script; that of an example is in `examples`, as its users need none."""
    beside = script.path.with_suffix(".txt")
    return ROOT / "examples" / beside.name if script.kind == "broken" else beside


def difference(old: str, new: str, name: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{name}, accepted", f"{name}, now", lineterm="")
    return "\n".join(lines)


def main(wanted: list[str]) -> None:
    os.chdir(Path(__file__).parents[2])  # files are told from here
    changed = 0
    for script in [*scripts(), *examples()]:
        if wanted and not any(each in script.name for each in wanted):
            continue
        file = golden(script)
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        new = page(text_of(told(script, watched=False)), text_of(told(script, watched=True)), of_forms(script))
        if new != old:
            changed += 1
            print(difference(old, new, script.name), end="\n\n")
            file.write_text(new, encoding="utf-8")
    print(f"{changed} changed" if changed else "nothing has changed")


if __name__ == "__main__":
    main(sys.argv[1:])

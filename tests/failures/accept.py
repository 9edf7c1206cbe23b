"""What is said of each failing script, as it was last accepted, word for word: `NAME.txt` beside `NAME.py`.

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
from scripts import Script, scripts

AFTER, WATCHED = "after the fact", "under watch"
_SAME = "The same."


def text_of(found: Told) -> str:
    return str(found.finding or "Nothing is said.")


def page(after: str, watched: str) -> str:
    """What is accepted of a script, as its file has it."""
    return f"# {AFTER}\n\n{after}\n\n# {WATCHED}\n\n{_SAME if watched == after else watched}\n"


def accepted(script: Script, watched: bool) -> str:
    """The text that was accepted last; empty if none was."""
    file = golden(script)
    if not file.exists():
        return ""
    first, _, second = file.read_text(encoding="utf-8").removeprefix(f"# {AFTER}\n\n").partition(f"\n\n# {WATCHED}\n\n")
    return second.removesuffix("\n") if watched and second != f"{_SAME}\n" else first


def golden(script: Script) -> Path:
    return script.path.with_suffix(".txt")


def difference(old: str, new: str, name: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{name}, accepted", f"{name}, now", lineterm="")
    return "\n".join(lines)


def main(wanted: list[str]) -> None:
    os.chdir(Path(__file__).parents[2])  # files are told from here
    changed = 0
    for script in scripts():
        if wanted and not any(each in script.name for each in wanted):
            continue
        file = golden(script)
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        new = page(text_of(told(script, watched=False)), text_of(told(script, watched=True)))
        if new != old:
            changed += 1
            print(difference(old, new, script.name), end="\n\n")
            file.write_text(new, encoding="utf-8")
    print(f"{changed} changed" if changed else "nothing has changed")


if __name__ == "__main__":
    main(sys.argv[1:])

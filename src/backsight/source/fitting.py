"""Whether what a fix says to write fits the program: a name that is not there would only make another error."""

from __future__ import annotations

import builtins
import linecache
import re
import symtable

from backsight.source.edits import OR, Alternative, EditError, alternatives, edited, importing, without_marks

_MODULES = {"copy", "torch"}
"""What fixes use; it is imported where it has to be."""

_OF_MODULES = {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__loader__", "__package__", "__path__"}
_STAR = re.compile(r"^\s*from\s.*\bimport\s+\*", re.MULTILINE)


def fitting(fix: str) -> str:
    """Return a fix with what has to be imported for it, and without the alternatives that do not fit the program.

    Of one alternative that does not fit the words are left.
    """
    parts = fix.split(OR)
    missing = [[_missing(each) for each in alternatives(part)] for part in parts]
    fits = [all(name in _MODULES for names in each for _, name in names) for each in missing]
    if not any(fits):
        return without_marks(fix)
    left = [part for part, fit in zip(parts, fits, strict=True) if fit]
    if not all(fits):
        left = [*map(_ended, left[:-1]), left[-1] if fits[-1] else _ended(left[-1])]
        first = left[0] if fits[0] else re.sub("^[Oo]r ", "", left[0])
        left[0] = first[:1].upper() + first[1:]
    needed = {each for every, fit in zip(missing, fits, strict=True) if fit for names in every for each in names}
    lines = [f"`import {name}`{importing(file, f'import {name}')}" for file, name in sorted(needed)]
    return OR.join(left).rstrip() + (f" For that, put {' and '.join(lines)} at the top." if lines else "")


def _ended(part: str) -> str:
    """Words before an alternative that is left out, with their full stop."""
    words = part.rstrip().rstrip(",;")
    return f"{words} " if words.endswith((".", ")")) else f"{words}. "


def _missing(alternative: Alternative) -> set[tuple[str, str]]:
    """The names, with their file, that a program has not and would have to have; a file alone, if Python takes none.

    Of a file that cannot be read, a cell of a notebook or one that has changed, nothing is known.
    """
    texts = {edit.file: "".join(linecache.getlines(edit.file)) for edit in alternative}
    try:
        before = {file: _unknown(text) for file, text in texts.items()}
        after = edited(alternative, texts)
        return {(file, name) for file, text in after.items() for name in _unknown(text) - before[file]}
    except (SyntaxError, ValueError, RecursionError) as why:
        return (
            {(edit.file, "") for edit in alternative} if isinstance(why, EditError) and all(texts.values()) else set()
        )


def _unknown(text: str) -> set[str]:
    """The names that a program reads, and has nowhere: neither around the place, nor in the module, nor in Python."""
    tables = [symtable.symtable(text, "", "exec")]
    module = {each.get_name() for each in tables[0].get_symbols() if each.is_assigned() or each.is_imported()}
    read = set[str]()
    for table in tables:  # grows as we go
        tables += table.get_children()
        for each in table.get_symbols():
            if each.is_declared_global() and each.is_assigned():
                module.add(each.get_name())
            elif each.is_global() or table is tables[0]:
                read.add(each.get_name())
    return set() if _STAR.search(text) else read - module - vars(builtins).keys() - _OF_MODULES

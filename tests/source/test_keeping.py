"""Which statements put something into a list, a dict or a running sum."""

from __future__ import annotations

import linecache
import textwrap

import pytest

from backsight.source.body import body_around
from backsight.source.keeping import Keeping, keepings


def found(source: str, name: str) -> tuple[Keeping, ...]:
    text = textwrap.dedent(source).lstrip("\n")
    linecache.cache["kept.py"] = (len(text), None, text.splitlines(keepends=True), "kept.py")
    body = body_around("kept.py", 1)
    assert body is not None
    return keepings(body, name)


@pytest.mark.parametrize(
    ("statement", "name", "value", "fixed"),
    [
        ("history.append(loss)", "history", "loss", "history.append(NEW)"),
        ("history.append(loss / steps)", "history", "loss / steps", "history.append(NEW)"),
        ("self.losses.append(loss)", "self.losses", "loss", "self.losses.append(NEW)"),
        ("log.values['loss'].append(out)", "log.values", "out", "log.values['loss'].append(NEW)"),
        (
            "log.values.setdefault('a', []).append(out)",
            "log.values",
            "out",
            "log.values.setdefault('a', []).append(NEW)",
        ),
        ("history += [loss]", "history", "loss", "history += [NEW]"),
        ("best[epoch] = loss", "best", "loss", "best[epoch] = NEW"),
        ("best['loss'][epoch] = loss", "best", "loss", "best['loss'][epoch] = NEW"),
        ("history.insert(0, loss)", "history", "loss", "history.insert(0, NEW)"),
        ("total += loss", "total", "loss", "total += NEW"),
        ("total = total + loss", "total", "loss", "total = total + NEW"),
        ("self.total = loss + self.total", "self.total", "loss", "self.total = NEW + self.total"),
    ],
)
def test_what_is_kept_and_the_statement_with_another_value(statement: str, name: str, value: str, fixed: str) -> None:
    (keeping,) = found(statement, name)
    assert (keeping.value, keeping.with_value("NEW")) == (value, fixed)
    assert keeping.place.text == statement


def test_running_sums_are_told_from_lists() -> None:
    assert [each.sums for each in found("total += loss\ntotal = total + loss", "total")] == [True, True]
    assert [each.sums for each in found("total.append(loss)\ntotal[0] = loss\ntotal += [loss]", "total")] == [False] * 3


def test_other_ways_to_compute_a_name_from_itself_have_no_value_of_their_own() -> None:
    (average,) = found("average = 0.9 * average + 0.1 * loss", "average")
    (hidden,) = found("out, hidden = rnn(x, hidden)", "hidden")
    assert (average.value, average.with_value("x")) == ("", "")
    assert (hidden.value, hidden.sums) == ("", True)


def test_a_name_of_any_object() -> None:
    source = """
    for x in data:
        self.values.append(x)
        values.append(x)
        other.values[0] = x
    """
    assert [each.place.line for each in found(source, ".values")] == [2, 4]


@pytest.mark.parametrize(
    "statement",
    ["history.pop()", "history = []", "history.clear()", "loss.append(history)", "history.append()", "f(history)"],
)
def test_what_keeps_nothing(statement: str) -> None:
    assert found(statement, "history") == ()

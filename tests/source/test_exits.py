"""Where a pass ends early, between two statements."""

from __future__ import annotations

import linecache
import textwrap

from backsight.source import Place
from backsight.source.body import body_around, statements
from backsight.source.exits import exits


def found(source: str) -> list[str]:
    """What leaves between `first()` and `last()`."""
    text = textwrap.dedent(source).lstrip("\n")
    linecache.cache["exits.py"] = (len(text), None, text.splitlines(keepends=True), "exits.py")
    body = body_around("exits.py", 2)
    assert body is not None
    places = {place.text: place for each in statements(body.node) if isinstance(place := body.place(each), Place)}
    return [f"{each.line}: {each.text}" for each in exits(body, places["first()"], places["last()"])]


def test_a_return_under_a_condition_leaves():
    assert found("""
        def step(x):
            first()
            if x > 3:
                return None
            last()
            return x
    """) == ["4: return None"]


def test_a_continue_leaves_the_loop_that_holds_the_second_statement_and_no_inner_one():
    assert found("""
        def fit(xs):
            for x in xs:
                first()
                for each in x:
                    if each < 0:
                        continue
                if x is None:
                    continue
                last()
    """) == ["8: continue"]


def test_what_stands_in_another_arm_than_the_first_is_not_between():
    assert (
        found("""
        def step(x):
            if x:
                first()
            else:
                return None
            last()
    """)
        == []
    )


def test_an_exception_that_is_caught_around_both_skips_the_second_unless_it_is_raised_again():
    assert found("""
        def fit(xs):
            for x in xs:
                try:
                    first()
                    last()
                except ValueError:
                    print(x)
                    continue
                except TypeError:
                    raise
    """) == ["8: continue"]
    assert (
        found("""
        def step(x):
            first()
            try:
                last()
            except ValueError:
                pass
    """)
        == []
    )

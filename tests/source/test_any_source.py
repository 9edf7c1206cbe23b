"""Whatever the user's code looks like, reading it raises nothing and the answers are consistent."""

from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.source.bindings import assignments
from backsight.source.body import statement_at
from backsight.source.calls import backward_calls, receiver_of_backward
from backsight.source.changes import inplace_changes
from backsight.source.cuts import cuts
from backsight.source.loops import loop_facts

NAMES = st.sampled_from(["h", "x", "loss", "self.h", "out.a.b"])
EXPRESSIONS = st.recursive(
    NAMES
    | st.sampled_from(["1", "'é'", "x.data", "x.max(1)[1]", "[a for a in x if a]", "(h := x)", "{k: v for k, v in x}"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", ">", "and", "if x else"]), inner).map(
            lambda each: f"({' '.join(each)})"
        ),
        inner.map(lambda each: f"({each}).detach()"),
        inner.map(lambda each: f"(lambda h=x: {each})"),
        inner.map(lambda each: f"f(*{each}, out={each})"),
    ),
    max_leaves=4,
)
SIMPLE = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(" = ".join),
    st.tuples(NAMES, EXPRESSIONS).map(" += ".join),
    EXPRESSIONS.map(lambda each: f"a, (h, *x) = {each}"),
    EXPRESSIONS.map(lambda each: f"x[{each}] = h.add_({each})"),
    EXPRESSIONS.map(lambda each: f"({each}).backward(); opt.step()"),
    st.sampled_from(["pass", "del h", "import torch as x", "x.requires_grad = False", "raise h", "assert x, h"]),
)
HEADERS = [
    "for h in {0}:", "while (x := {0}):", "if {0}:", "with torch.no_grad(), {0} as h:", "def f(h, *x, k={0}):",
    "class A({0}):", "if {0}: pass\nelse:", "try: {0}\nexcept E as h:", "try: pass\nfinally:", "@f({0})\ndef x():",
    "match {0}:\n case [1, *h]: pass\n case {{'a': x, **rest}} as loss if h:\n  pass\n case _:",
    "for h in x: break\nelse:", "async def f():\n async for self.h in {0}:",
]  # fmt: skip


def indented(text, by):
    return "\n".join(" " * by + line for line in text.split("\n"))


def compound(parts):
    header, value, block = parts
    return header.format(value) + "\n" + indented("\n".join(block), 4)


PROGRAMS = st.lists(
    st.recursive(
        SIMPLE,
        lambda inner: st.tuples(st.sampled_from(HEADERS), EXPRESSIONS, st.lists(inner, min_size=1, max_size=3)).map(
            compound
        ),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
).map("\n".join)


@settings(deadline=None)
@given(PROGRAMS, NAMES)
def test_any_program_is_answered_without_an_error(body_of, program, name):
    body = body_of(program)
    assert isinstance(assignments(body, name), tuple)
    assert isinstance(inplace_changes(body, name), tuple)
    assert len(backward_calls(body)) <= len(body.lines)
    for line in range(len(body.lines) + 2):
        statement = statement_at(body, line)
        assert statement is None or statement.lineno - 2 <= line <= statement.end_lineno
        facts = loop_facts(body, line)
        assert facts is None or set(facts.carried) <= facts.assigned
        assert facts is None or not set(facts.outside) & facts.assigned
        root = receiver_of_backward(body, line)
        assert all(cut.place.line <= len(body.lines) for cut in cuts(body, root or name, line))

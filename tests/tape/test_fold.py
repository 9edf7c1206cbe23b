"""Folding: what is left out is equal, in all that is shown, to what stays."""

from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.tape.fold import Fold, folded, repetitions


def chain(n):
    return [(i - 1,) if i else () for i in range(n)]


def labelled(letters, inputs):
    """Labels as `find` makes them: rows that look alike have equally many inputs."""
    return [(letter, len(sources)) for letter, sources in zip(letters, inputs, strict=True)]


def fold(letters, inputs, **more):
    return repetitions(labelled(letters, inputs), inputs, **more)


@st.composite
def repetitive(draw):
    """A sequence of blocks, some of them repeated, in which rows consume earlier ones near by."""
    letters = ""
    for _ in range(draw(st.integers(1, 4))):
        letters += draw(st.text("abc", min_size=1, max_size=4)) * draw(st.integers(1, 5))
    reach = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return letters, [
        tuple(sorted({i - step for step in reach[: draw(st.integers(1, len(reach)))] if step <= i}))
        for i in range(len(letters))
    ]


def test_a_loop_is_shown_once():
    assert fold("x" + "ab" * 50 + "y", chain(102)) == (Fold(start=1, period=2, count=50),)


def test_a_hundred_thousand_rows_fold_as_well():
    n = 100_001
    assert fold("x" + "sa" * (n // 2), chain(n)) == (Fold(start=1, period=2, count=n // 2),)


def test_a_loop_within_a_loop_is_folded_within_its_first_repetition():
    letters = "x" + ("abbbbbb" * 3) + "y"
    assert fold(letters, chain(len(letters))) == (Fold(1, 7, 3), Fold(2, 1, 6))


def test_two_rows_saved_are_not_worth_a_fold():
    assert fold("xaaay", chain(5)) == ()


def test_what_looks_alike_but_is_wired_differently_stays():
    inputs = chain(13)
    inputs[6] = (3,)
    assert all(6 not in range(f.start, f.stop) or f.stop <= 6 for f in fold("x" + "abc" * 4, inputs))
    crossed = [(), *[(i - 1, i - 2 if i // 3 % 2 else i - 1) if i > 1 else (0, 0) for i in range(1, 13)]]
    assert fold("x" + "abc" * 4, crossed) == ()


def test_every_repetition_may_consume_one_row_from_before():
    inputs = [(), *[(i - 1, 0) for i in range(1, 13)]]
    assert fold("x" + "abc" * 4, inputs) == (Fold(1, 3, 4),)


def test_a_row_behind_may_consume_the_last_repetition_but_not_an_inner_one():
    assert fold("x" + "abc" * 4 + "y", [*chain(13), (12, 11)]) == (Fold(1, 3, 4),)
    assert fold("x" + "abc" * 4 + "y", [*chain(13), (12, 5)]) != (Fold(1, 3, 4),)


def test_a_row_behind_may_consume_all_repetitions():
    stacked = [*chain(13), (3, 6, 9, 12)]
    folds = fold("x" + "abc" * 4 + "s", stacked)
    assert folds == (Fold(1, 3, 4),)
    assert folded(stacked, folds).inputs[-1] == (3, 3, 3, 3)


def test_one_row_behind_may_consume_all_repetitions_and_another_any_row_of_the_last():
    for row in (10, 11, 12):
        inputs = [*chain(13), (3, 6, 9, 12), (row,)]
        assert fold("x" + "abc" * 4 + "sy", inputs) == (Fold(1, 3, 4),)


def test_a_root_within_an_inner_repetition_keeps_it_visible():
    assert fold("x" + "abc" * 4, chain(13), roots=[12]) == (Fold(1, 3, 4),)
    assert fold("x" + "abc" * 4, chain(13), roots=[5]) != (Fold(1, 3, 4),)


def test_numbers_in_names_may_count_up_in_equal_steps():
    def numbered(steps):
        return fold("x" + "abc" * 4, chain(13), numbers=[(), *[(7, k) for k in steps for _ in "abc"]])

    assert numbered([0, 1, 2, 3]) == (Fold(1, 3, 4),)
    assert numbered([4, 4, 4, 4]) == (Fold(1, 3, 4),)
    assert Fold(1, 3, 4) not in numbered([0, 1, 2, 5])


def test_a_fold_begins_where_a_loop_carries_least_along():
    letters = "xc" + "abc" * 5  # c reads a and b, and only c is carried into the next round
    inputs = [(), (0, 0), *[(i - 1, i - 2) if letters[i] == "c" else (i - 1,) for i in range(2, 17)]]
    assert fold(letters, inputs) == (Fold(start=2, period=3, count=5),)


@given(rounds=st.integers(5, 20), backwards=st.booleans(), between=st.integers(0, 3))
def test_a_loop_through_what_another_has_made_is_folded_with_it(rounds, backwards, between):
    letters = "xab" * rounds + "y" * between + "cd" * rounds + "s"
    inputs = [(), (0,), (0, 1)]
    inputs += [(i - 3,) if i % 3 == 0 else (i - 1,) if i % 3 == 1 else (i - 2, i - 1) for i in range(3, 3 * rounds)]
    inputs += [() for _ in range(between)]
    for k in range(rounds):
        made = 3 * (rounds - 1 - k if backwards else k)
        inputs += [(made + 1,), (made + 2, len(inputs))]
    results = range(3 * rounds + between + 1, len(inputs), 2)
    inputs.append(tuple(results))
    found = fold(letters, inputs)
    assert sorted((f.period, f.count) for f in found) == [(2, rounds - 1), (3, rounds - 1)]  # the first x is another
    kept = folded(inputs, found)
    assert expanded("".join(letters[r] for r in kept.rows), kept) == letters


def test_a_loop_through_a_part_of_what_another_has_made_is_not_folded_without_it():
    letters = "xab" * 8 + "cd" * 5
    inputs = [(), (0,), (1,)] * 8
    inputs = [tuple(i // 3 * 3 + j for j in sources) for i, sources in enumerate(inputs)]
    for k in range(5):
        inputs += [(3 * k + 2,), (len(inputs),)]
    for f in fold(letters, inputs):
        assert f.period == 3 and f.start >= 15, "the three whose results nobody uses"


@settings(max_examples=300)
@given(repetitive())
def test_expanding_the_folds_gives_the_rows_back(sequence):
    letters, inputs = sequence
    folds = fold(letters, inputs)
    kept = folded(inputs, folds)
    assert expanded("".join(letters[r] for r in kept.rows), kept) == letters


@settings(max_examples=300)
@given(repetitive())
def test_every_repetition_is_wired_like_the_first(sequence):
    letters, inputs = sequence
    for f in fold(letters, inputs):
        for row in range(f.start + f.period, f.stop):
            begin = f.start + (row - f.start) // f.period * f.period
            for now, before in zip(inputs[row], inputs[row - f.period], strict=True):
                own_or_previous = begin - f.period <= now and now - f.period == before
                from_before = now == before < f.start
                carried_in = begin == f.start + f.period and f.start <= now < begin and before < f.start
                assert own_or_previous or from_before or carried_in


@settings(max_examples=300)
@given(repetitive())
def test_inputs_of_what_stays_come_from_what_stays_above(sequence):
    letters, inputs = sequence
    kept = folded(inputs, fold(letters, inputs))
    for k, (row, sources) in enumerate(zip(kept.rows, kept.inputs, strict=True)):
        assert all(j < k for j in sources)
        assert [letters[kept.rows[j]] for j in sources] == [letters[j] for j in inputs[row]]


def expanded(letters, kept):
    """Write every fold out again, from the last line to the first so that inner folds come before outer ones."""
    stack = [""]
    for k, letter in enumerate(letters):
        stack += [""] * len(kept.opening.get(k, ()))
        stack[-1] += letter
        for f in kept.closing.get(k, ()):
            body = stack.pop()
            assert len(body) == f.period
            stack[-1] += body * f.count
    (whole,) = stack
    return whole

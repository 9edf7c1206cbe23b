"""The ledger adds up, whatever is born and dies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backsight.memory.kinds import settled
from backsight.memory.ledger import Ledger

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["born", "died", "size", "there"]), st.integers(0, 6), st.integers(1, 999))
)


@given(ACTIONS)
def test_totals_are_those_of_a_plain_sum(actions):
    ledger, sizes, totals = Ledger(), {}, []
    start = 0
    for what, key, size in actions:
        if what == "there" and key not in sizes and not totals:
            ledger.existing(key, size, "cpu")
            sizes[key] = size
            start = sum(sizes.values())
        elif what == "born":
            if key in sizes:  # a death that nobody reported
                del sizes[key]
                totals.append(sum(sizes.values()))
            ledger.born(key, size, "cpu")
            sizes[key] = size
            totals.append(sum(sizes.values()))
        elif what == "died":
            ledger.died(key)
            if sizes.pop(key, None) is not None:
                totals.append(sum(sizes.values()))
        elif what == "size" and key in sizes:
            ledger.resized(key, size)
            sizes[key] = size
            totals.append(sum(sizes.values()))
    history = ledger.history()
    assert history.total.tolist() == totals
    assert (history.start, history.peak) == (start, max([start, *totals]))
    assert sum(size for _, size in history.alive(len(totals) - 1)) == (totals[-1] if totals else start)
    assert sum(history.by("kind", history.peak_at).values()) == history.peak
    assert all(ledger.living(key) for key in sizes)


def test_the_peak_is_where_it_was_first_reached():
    ledger = Ledger()
    for key, size in ((1, 10), (2, 20)):
        ledger.born(key, size, "cpu")
    ledger.died(2)
    ledger.born(3, 20, "cpu")
    assert ledger.history().peak_at == 1


def test_phases_cover_the_changes_in_their_order():
    ledger = Ledger()
    for at, phase in enumerate(("forward", "forward", "backward", "recomputation", "backward", "optimizer")):
        ledger.enter(phase, at)
        ledger.born(at, 1, "cpu", at)
    spans = ledger.history(10).spans
    assert [(s.phase, s.first, s.last, s.began, s.ended) for s in spans] == [
        ("forward", 0, 2, 0, 2),
        ("backward", 2, 3, 2, 3),
        ("recomputation", 3, 4, 3, 4),
        ("backward", 4, 5, 4, 5),
        ("optimizer", 5, 6, 5, 10),
    ]


def test_a_phase_without_a_change_is_left_out():
    ledger = Ledger()
    ledger.enter("forward", 0)
    ledger.enter("backward", 1)
    ledger.born(1, 1, "cpu", 2)
    assert [span.phase for span in ledger.history(3).spans] == ["backward"]


def life(*phases: str, born: int, died: int | None) -> str:
    """Return the kind of a storage born and dead in these of the phases."""
    ledger = Ledger()
    for at, phase in enumerate(phases):
        ledger.enter(phase, at)
        if at == died:
            ledger.died(0, at)
        if at == born:
            ledger.born(0, 8, "cpu", at)
        ledger.born(at + 100, 1, "cpu", at)
    return settled(ledger.history(99)).blocks[0 if born == 0 else born].kind


def test_kinds_follow_from_lives():
    step = ("forward", "backward", "optimizer")
    assert life(*step, born=0, died=1) == "saved for backward"
    assert life(*step, born=0, died=2) == "other"  # something else than the graph held it
    assert life(*step, born=0, died=None) == "other"
    assert life(*step, born=1, died=2) == "temporaries"
    assert life(*step, born=1, died=None) == "other"
    assert life("forward", "optimizer", born=0, died=1) == "temporaries"
    again = ("forward", "backward", "recomputation", "backward", "optimizer")
    assert life(*again, born=2, died=3) == "saved for backward"
    assert life(*again, born=0, died=2) == "saved for backward"

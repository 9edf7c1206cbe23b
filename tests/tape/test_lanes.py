"""Lanes: a result has a lane from the row that makes it to the last row that needs it."""

from hypothesis import given
from hypothesis import strategies as st

from backsight.tape.lanes import Lane, draw, lanes, through, width


@st.composite
def dags(draw):
    """Rows that each consume up to four earlier rows."""
    n = draw(st.integers(1, 40))
    return [tuple(draw(st.lists(st.integers(0, i - 1), max_size=4))) if i else () for i in range(n)]


def picture(inputs, limit=24):
    return "\n".join("".join(draw(lane, limit=limit)).rstrip() for lane in lanes(inputs, limit))


def test_a_chain_stays_in_one_lane():
    assert picture([(), (0,), (1,)]) == "●\n●\n●"


def test_a_residual_block_forks_and_joins():
    assert picture([(), (0,), (1,), (0, 2)]) == "●\n├─●\n│ ●\n●─┘"


def test_a_lane_that_is_passed_is_crossed_and_one_that_is_read_is_not():
    assert picture([(), (), (0,), (0, 1, 2)]) == "●\n│ ●\n├─┼─●\n●─┴─┘"


def test_independent_rows_leave_their_lane_free_at_once():
    assert picture([(), (), ()]) == "●\n●\n●"


def test_lanes_beyond_the_limit_are_an_ellipsis():
    wide = [(), (), (), (), (0, 1, 2, 3)]
    assert picture(wide, limit=2) == "●\n│ ●\n│ │ …\n│ │ …\n●─┴─…"


def test_a_line_between_rows_continues_the_open_lanes():
    fork = lanes([(), (), (0, 1)])
    assert "".join(through(fork[1])).rstrip() == "│ │"
    assert through(fork[2]) == []


def test_no_rows_have_no_lanes():
    assert lanes([]) == [] and width([]) == 0


@given(dags())
def test_every_edge_is_drawn_from_a_lane_that_its_source_has_opened(inputs):
    holder: dict[int, int] = {}
    for i, (lane, sources) in enumerate(zip(lanes(inputs), inputs, strict=True)):
        assert {holder[k] for k in bits(lane.joins)} == set(sources)
        assert all(lane.before >> k & 1 for k in bits(lane.joins))
        for k in bits(lane.ends):
            assert not any(holder[k] in later for later in inputs[i + 1 :])
            del holder[k]
        assert lane.here not in holder, "a lane is never taken from a result that is still needed"
        if any(i in later for later in inputs[i + 1 :]):
            holder[lane.here] = i
        assert bits(lane.after) == sorted(holder)
    assert not holder


@given(dags(), st.integers(1, 5))
def test_a_limit_changes_nothing_to_the_left_of_it(inputs, limit):
    for full, limited in zip(lanes(inputs), lanes(inputs, limit), strict=True):
        mask = (1 << limit) - 1
        assert [field & mask for field in full[1:]] == [field & mask for field in limited[1:]]
        assert min(full.here, limit) == limited.here
        assert (full.after >> limit != 0) == (limited.after >> limit != 0)


@given(dags())
def test_cells_are_two_columns_each_and_hold_one_node(inputs):
    for lane in lanes(inputs):
        cells = draw(lane)
        assert all(len(cell) == 2 for cell in cells)
        assert "".join(cells).count("●") == 1


def test_a_row_is_plain_data():
    assert lanes([(), (0,)])[1] == Lane(here=0, joins=1, ends=1, before=1, after=0)


def bits(mask):
    return [k for k in range(mask.bit_length()) if mask >> k & 1]

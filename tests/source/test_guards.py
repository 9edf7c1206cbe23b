"""Conditions that hold only later than a number of iterations, as the text has them."""

import textwrap

import pytest

from backsight.source.body import body_around
from backsight.source.guards import begins_later


@pytest.fixture
def late(tmp_path):
    def asked(source, times=100):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source))
        line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "#!" in text)
        return begins_later(body_around(str(file), line), line, times)

    return asked


@pytest.mark.parametrize("test", ["step >= start", "step > 10 and ready", "step % 1000 == 0", "step % every == 0"])
def test_a_condition_that_a_counter_has_to_reach(late, test):
    assert late(f"for step in steps:\n    loss.backward()\n    if {test}:\n        update()  #!\n")


@pytest.mark.parametrize("test", ["ready", "step % 50 == 0", "not step % (50)"])
def test_what_would_have_held_by_then(late, test):
    assert not late(f"for step in steps:\n    loss.backward()\n    if {test}:\n        update()  #!\n")


@pytest.mark.parametrize("given", ["every = 500", "self.every = 500", "f(every=500)", "def f(every=500): pass"])
def test_the_number_of_a_name_wherever_the_file_has_it(late, given):
    loop = "for step in steps:\n    loss.backward()\n    if step % self.every == 0:\n        update()  #!\n"
    assert late(f"{given}\n{loop}")
    assert not late(f"{given.replace('500', '50')}\n{loop}")


def test_a_condition_around_the_backward_is_met_in_each_iteration(late):
    assert not late("for step in steps:\n    if len(memory) > 64:\n        loss.backward()\n        update()  #!\n")
    assert not late("def learn():\n    if len(memory) < 64:\n        return\n    loss.backward()\n    update()  #!\n")


def test_what_leaves_the_function_or_the_loop_before(late):
    assert late("def update():\n    if step < start:\n        return\n    copy()  #!\n")
    assert late("for step in steps:\n    loss.backward()\n    if step < start:\n        continue\n    update()  #!\n")


def test_the_condition_around_the_call_of_a_function(late):
    calls = "for step in steps:\n    loss.backward()\n    if step > start:\n        update()\n"
    assert late(f"def update():\n    copy()  #!\n{calls}")
    assert not late(f"def update():\n    loss.backward()\n    copy()  #!\n{calls}")

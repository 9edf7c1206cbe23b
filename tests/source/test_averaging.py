"""Statements that write one module's parameters from another's, as the text has them."""

import textwrap

import pytest

from backsight.source.averaging import writes


@pytest.fixture
def written(tmp_path):
    def read(source):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source))
        return [(each.target, each.origin, each.how, each.outermost.line) for each in writes(str(file))]

    return read


def test_a_state_that_is_loaded(written):
    assert written("target.load_state_dict(net.state_dict())\n") == [("target", "net", "loads", 1)]
    assert written("target.load_state_dict(torch.load('best.pt'))\n") == [("target", "", "loads", 1)]


@pytest.mark.parametrize(
    "statement",
    ["a.lerp_(b, 0.1)", "a.mul_(d).add_(b, alpha=1 - d)", "a.data.copy_(d * a + b)", "a.data = d * a + b", "a *= d"],
)
def test_a_loop_that_writes_to_its_first_variable(written, statement):
    source = f"for a, b in zip(slow.parameters(), self.net.parameters()):\n    {statement}\n"
    assert written(source) == [("slow", "self.net", "blends", 2)]


def test_a_list_that_is_made_for_its_loop(written):
    source = "[a.lerp_(b, 0.1) for a, b in zip(slow.parameters(), net.parameters())]\n"
    assert written(source) == [("slow", "net", "blends", 1)]


def test_a_loop_that_writes_to_its_second_variable(written):
    source = "for (n, p), (m, q) in zip(net.named_parameters(), slow.named_parameters()):\n    q.lerp_(p, 0.1)\n"
    assert written(source) == [("slow", "net", "blends", 2)]


def test_a_loop_that_binds_its_variable_writes_nothing(written):
    source = "for a, b in zip(slow.parameters(), net.parameters()):\n    a = d * a + b\n"
    assert written(source) == [("slow", "net", "rebinds", 2)]


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("for k, v in slow.state_dict().items():\n    v = d * v + now[k]\n", "rebinds"),
        ("state = slow.state_dict()\nfor k in state:\n    state[k] = d * state[k] + now[k]\n", "state"),
    ],
)
def test_a_loop_over_one_state_that_writes_nothing(written, source, how):
    assert [each[::2] for each in written(source)] == [("slow", how)]


def test_a_tensor_that_gets_the_memory_of_another(written):
    source = "for a, b in zip(slow.parameters(), net.parameters()):\n    a.data = b.data\n"
    assert written(source) == [("slow", "net", "shares", 2)]


def test_a_function_is_told_with_what_its_calls_hand_in(written):
    source = """
        def blend(average, current, decay):
            for a, c in zip(average.parameters(), current.parameters()):
                a.mul_(decay).add_(c, alpha=1 - decay)

        class Trainer:
            def update(self):
                blend(self.student, current=self.teacher, decay=0.9)
    """
    assert ("self.student", "self.teacher", "blends", 8) in written(source)


@pytest.mark.parametrize(
    "source",
    [
        "for a, b in zip(xs, ys):\n    a.add_(b)\n",
        "for a, b in zip(net.parameters(), gradients):\n    a.sub_(b)\n",
        "for k, v in slow.state_dict().items():\n    v = v.float() + 0.0\n",
        "state = slow.state_dict()\nfor k in state:\n    state[k] = d * state[k]\nuse(state)\n",
        "for a, b in zip(net.parameters(), slow.parameters()):\n    total += (a - b).norm()\n",
    ],
)
def test_other_loops_are_none(written, source):
    assert written(source) == []

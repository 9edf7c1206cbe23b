"""What a loop carries over and what it takes from outside, on the loops that go wrong in training scripts."""

import pytest

from backsight.source.loops import loop_facts


@pytest.fixture
def facts_of(body_of, line_of):
    """The facts of the loop around the line that says `backward()`."""

    def facts(source, name="<module>"):
        body = body_of(source, name)
        return loop_facts(body, line_of(body, "backward()"))

    return facts


def lines(carried):
    return {name: (read.line, assigned.line) for name, (read, assigned) in carried.items()}


class TestCarried:
    def test_the_hidden_state_of_an_rnn(self, facts_of):
        facts = facts_of("""
            hidden = torch.zeros(1, 8)
            for x, y in loader:
                out, hidden = rnn(x, hidden)
                loss = criterion(out, y)
                loss.backward()
        """)
        assert lines(facts.carried) == {"hidden": (3, 3)}
        assert facts.carried["hidden"][0].text == "out, hidden = rnn(x, hidden)"
        assert facts.loop.text == "for x, y in loader:"
        assert facts.assigned == {"x", "y", "out", "hidden", "loss"}

    def test_a_state_reset_only_at_the_first_step_is_carried_all_the_same(self, facts_of):
        facts = facts_of("""
            for i, x in enumerate(loader):
                if i % 100 == 0:
                    hidden = rnn.initial()
                out, hidden = rnn(x, hidden)
                out.sum().backward()
        """)
        assert lines(facts.carried) == {"hidden": (4, 4)}

    def test_features_made_once_under_a_condition(self, facts_of):
        facts = facts_of("""
            for step in range(100):
                if step == 0:
                    features = encoder(x)
                head(features).sum().backward()
        """)
        assert lines(facts.carried) == {"features": (4, 3)}

    def test_a_state_detached_at_the_top_is_still_carried(self, facts_of):
        facts = facts_of("""
            for x in loader:
                hidden = hidden.detach()
                out, hidden = rnn(x, hidden)
                out.sum().backward()
        """)
        assert lines(facts.carried) == {"hidden": (2, 3)}

    def test_an_attribute_of_self(self, facts_of):
        facts = facts_of(
            """
            class Trainer:
                def fit(self, loader):
                    for x in loader:
                        out, self.state.hidden = self.rnn(x, self.state.hidden.clone())
                        out.sum().backward()
            """,
            "fit",
        )
        assert lines(facts.carried) == {"self.state.hidden": (4, 4)}

    def test_a_sum_kept_by_augmented_assignment(self, facts_of):
        facts = facts_of("""
            total = 0
            for x in loader:
                loss = f(x)
                total += loss
                total.backward()
        """)
        assert lines(facts.carried) == {"total": (4, 4)}

    def test_the_condition_of_a_while_loop_reads_before_the_body(self, facts_of):
        facts = facts_of("""
            loss = start()
            while loss > tolerance:
                loss = f(w)
                loss.backward()
        """)
        assert lines(facts.carried) == {"loss": (2, 3)}

    @pytest.mark.parametrize(
        "first",
        [
            "h = f(x)",
            "h, c = f(x)",
            "with scope() as h: pass",
            "if (h := f(x)) is None: continue",
            "for h in parts(x): pass",
            "if x: h = 1\n    else: h = 2",
            "if x: h = 1\n    elif y: h = 2\n    else: raise ValueError",
            "try: h = f(x)\n    except ValueError: continue",
            "try: h = f(x)\n    except ValueError: h = 0\n    finally: close()",
            "match x:\n        case 1: h = 1\n        case _: h = 2",
            "[(h := part) for part in x]",
            "if x: h = 1\n    elif (h := f(x)): pass",
            "if x:\n        try: continue\n        finally: close()\n    else: h = 1",
            "import h",
            "def h(): pass",
        ],
    )
    def test_not_what_every_path_binds_first(self, facts_of, first):
        facts = facts_of(f"for x in loader:\n    {first}\n    h.sum().backward()\n    h = 3\n")
        assert facts.carried == {}

    @pytest.mark.parametrize(
        "first",
        [
            "if x: h = f(x)",
            "if x: h = 1\n    elif y: h = 2",
            "try: h = f(x)\n    except ValueError: pass",
            "match x:\n        case 1: h = 1",
            "match x:\n        case 1: h = 1\n        case _ if y: h = 2",
            "match x:\n        case 1: h = 1\n        case 2 as y: h = 2",
            "def g(): h = 1",
            "[h for h in x]",
            "g = lambda h: h",
            "h.grad = None",
        ],
    )
    def test_what_some_path_leaves_unbound(self, facts_of, first):
        facts = facts_of(f"for x in loader:\n    {first}\n    h.sum().backward()\n    h = 3\n")
        assert "h" in facts.carried

    def test_names_of_comprehensions_and_lambdas_stay_inside(self, facts_of):
        facts = facts_of("""
            for x in loader:
                parts = [part * scale for part in x]
                key = lambda q: q + offset
                sum(parts).backward()
                part = q = scale = offset = 1
        """)
        assert set(facts.carried) == {"scale", "offset"}

    def test_a_closure_reads_what_it_does_not_bind(self, facts_of):
        facts = facts_of("""
            for x in loader:
                def closure(scale):
                    global count
                    count = count + 1
                    out = model(x, state) * scale
                    return out
                closure(2).backward()
                state = out = scale = count = 1
        """)
        assert set(facts.carried) == {"state", "count"}


class TestOutside:
    def test_what_was_computed_once_before_the_loop(self, facts_of):
        facts = facts_of("""
            import torch
            features = encoder(x)
            features = features * 2
            def criterion(a): ...
            for y in loader:
                loss = criterion(features + y)
                loss.backward()
        """)
        assert {name: place.line for name, place in facts.outside.items()} == {"features": 3}
        assert facts.outside["features"].text == "features = features * 2"

    def test_not_what_the_loop_assigns_itself(self, facts_of):
        facts = facts_of("""
            w = start()
            state = State()
            for x in loader:
                w = f(w)
                state = State(state.h)
                w.backward()
        """)
        assert facts.outside == {}

    def test_meta_learning_reads_the_outer_loop_from_the_inner(self, facts_of):
        facts = facts_of("""
            scale = nn.Parameter(torch.ones(3))
            for task in tasks:
                delta = scale.exp() + 1
                for x in task:
                    loss = (w * delta * x).sum()
                    loss.backward()
        """)
        assert facts.loop.line == 4
        assert {name: place.line for name, place in facts.outside.items()} == {"delta": 3}
        assert facts.enclosing.loop.line == 2
        assert {name: place.line for name, place in facts.enclosing.outside.items()} == {"scale": 1}
        assert facts.enclosing.enclosing is None


class TestLoopFacts:
    def test_none_outside_of_loops(self, body_of):
        body = body_of("for x in y:\n    f(x)\nelse:\n    g()\nloss.backward()\n")
        assert loop_facts(body, 5) is None
        assert loop_facts(body, 4) is None
        assert loop_facts(body, 1) is not None

    def test_a_chain_of_six_hundred_elifs_is_walked(self, body_of):
        arms = "".join(f"    elif x == {number}:\n        h = {number}\n" for number in range(600))
        body = body_of(f"while True:\n    if x:\n        h = 0\n{arms}    f(h)\n")
        assert "h" in loop_facts(body, 2).carried

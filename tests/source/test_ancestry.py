"""What a value may be computed from, by the text alone."""

from backsight.source.ancestry import ancestors
from backsight.source.definitions import MOST, flow_of

LOOP = """
def train(batches, hidden):
    scale = 2
    for x in batches:
        out, hidden = model(x, hidden)
        logits = head(out) * scale
        loss = criterion(logits, x.label)
        loss.backward()
"""


def test_names_come_the_nearest_first(body_of, line_of):
    body = body_of(LOOP, "train")
    found = list(ancestors(body, "loss", line_of(body, "loss.backward")))
    assert [name for name in found if name in ("loss", "logits", "out", "hidden")] == [
        "loss",
        "logits",
        "out",
        "hidden",
    ]
    assert {"x", "x.label", "scale", "model", "head", "criterion", "batches"} <= set(found)


def test_each_has_the_statements_that_bind_it(body_of, line_of):
    body = body_of(LOOP, "train")
    found = ancestors(body, "loss", line_of(body, "loss.backward"))
    assert [place.text for place in found["out"].bound] == ["out, hidden = model(x, hidden)"]
    assert [place.text for place in found["scale"].bound] == ["scale = 2"]


def test_what_may_come_from_before_the_function_is_marked(body_of, line_of):
    body = body_of(LOOP, "train")
    found = ancestors(body, "loss", line_of(body, "loss.backward"))
    assert found["hidden"].entering
    assert found["model"].entering
    assert not found["scale"].entering
    assert not found["logits"].entering


def test_what_is_read_again_further_back_is_marked_too(body_of, line_of):
    body = body_of(
        """
        def step(self, x):
            self.hidden = self.rnn(x, self.hidden)
            loss = self.head(self.hidden)
            loss.backward()
        """,
        "step",
    )
    assert ancestors(body, "loss", line_of(body, "loss.backward"))["self.hidden"].entering


def test_an_expression_of_the_line_may_be_asked_for(body_of):
    body = body_of("a = f(b)\n(a * c).backward()\n")
    assert {"a", "b", "c"} <= set(ancestors(body, "a * c", 2))


def test_a_line_outside_of_the_text_has_none(body_of):
    assert ancestors(body_of("a = 1\n"), "a", 99) == {}


def test_of_several_statements_on_a_line_the_last_that_reads_it_counts(body_of):
    body = body_of("x = f(a); loss = g(x); loss.backward(); optimizer.step()")
    assert set(ancestors(body, "loss", 1)) == {"loss", "g", "x", "f", "a"}


def test_a_question_about_a_name_looks_at_its_own_statements_alone(body_of):
    """What a long flat script needs: every other statement would be asked for every name."""
    lines = [f"x{number} = x{number - 1} + w" for number in range(1, 1000)]
    flow = flow_of(body_of("\n".join(lines)).node)
    assert [spot.node.lineno for spot, _ in flow.touched("x7", 0, len(lines))] == [7]
    assert flow.touched("w", 0, len(lines)) == []


def test_assignments_that_may_be_passed_by_are_followed_up_to_a_limit(body_of):
    lines = ["x = start"] + [f"if c: x = x + {number}" for number in range(2 * MOST)] + ["x.backward()"]
    found = ancestors(body_of("\n".join(lines)), "x", len(lines))
    assert found["x"].entering
    assert len(found["x"].bound) >= MOST

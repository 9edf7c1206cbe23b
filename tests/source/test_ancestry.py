"""What a value may be computed from, by the text alone."""

from backsight.source.ancestry import ancestors

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

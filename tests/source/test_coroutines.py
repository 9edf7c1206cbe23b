"""`async` and `await` in a text, read as what they stand for, and written as they were."""

import ast

from backsight.source import assignments, loop_facts, receiver_of_backward, statement_at
from backsight.source.body import callee, calls_in
from backsight.source.rewriting import rewritten

SOURCE = """
async def train(loader, model):
    hidden = None
    async for x, y in loader:
        async with lock:
            hidden = await model.step(x, hidden)
        loss = (
            await score(hidden,
                        y)
        )
        await run(loss.backward())
"""


def test_an_async_loop_is_a_loop_and_what_is_awaited_is_a_call(body_of):
    body = body_of(SOURCE, "train")
    assert isinstance(body.node, ast.FunctionDef)
    facts = loop_facts(body, 5)
    assert facts.loop.text == "async for x, y in loader:" and "hidden" in facts.carried
    statement = statement_at(body, 5)
    assert [callee(each)[1] for each in calls_in(statement)] == ["step"]
    assert isinstance(statement.value, ast.Call)
    assert [place.line for place in assignments(body, "hidden")] == [2, 5]
    assert receiver_of_backward(body, 10) == "loss"


def test_it_is_written_with_its_words(body_of):
    body = body_of(SOURCE, "train")
    assert body.text(statement_at(body, 4)) == "async with lock:"
    value = statement_at(body, 5).value
    assert body.text(value) == "await model.step(x, hidden)"
    loss = statement_at(body, 6)
    assert body.text(loss) == "loss = await score(hidden, y)"
    assert rewritten(body, loss, {loss.value.args[0]: "hidden.detach()"}) == "loss = await score(hidden.detach(), y)"

"""Which calls run backward, and on what."""

import pytest

from backsight.source.calls import backward_calls, receiver_of_backward

RECEIVERS = {
    "loss.backward()": "loss",
    "loss.backward(retain_graph=True)": "loss",
    "out.backward(torch.ones_like(out))": "out",
    "model_loss.backward(weights)": "model_loss",
    "losses['g'].backward()": "losses['g']",
    "(loss / 4).backward()": "loss / 4",
    "criterion(model(x), y).backward()": "criterion(model(x), y)",
    "self.loss.mean().backward()": "self.loss.mean()",
    "scaler.scale(loss / 4).backward()": "loss / 4",
    "self.scaler.scale(loss).backward()": "loss",
    "accelerator.backward(loss)": "loss",
    "self.manual_backward(loss)": "loss",
    "self.fabric.backward(loss)": "loss",
    "self.backward(loss)": "loss",
    "model_engine.backward(loss)": "loss",
    "torch.autograd.backward(loss)": "loss",
    "torch.autograd.backward([loss])": "loss",
    "torch.autograd.backward(tensors=(a, b))": "(a, b)",
    "g, = torch.autograd.grad(loss, w, create_graph=True)": "loss",
    "g = autograd.grad(outputs=score, inputs=x)[0]": "score",
    "g = grad(loss, w)": "loss",
    "torch.Tensor.backward(loss)": "loss",
    "a = f(x); loss.backward()": "loss",
    "optimizer.step(lambda: loss.backward())": "loss",
    "[loss.backward() for loss in losses]": "loss",
}


class TestReceiverOfBackward:
    @pytest.mark.parametrize(("statement", "receiver"), RECEIVERS.items())
    def test_is_the_expression_that_backward_runs_on(self, body_of, statement, receiver):
        body = body_of(statement)
        assert receiver_of_backward(body, 1) == receiver
        assert len(backward_calls(body)) == 1

    @pytest.mark.parametrize(
        "statement", ["optimizer.step()", "grad(f)(x)", "torch.func.grad(f)", "backward()", "x = 1"]
    )
    def test_is_none_where_backward_is_not_run(self, body_of, statement):
        assert receiver_of_backward(body_of(statement), 1) is None
        assert backward_calls(body_of(statement)) == ()

    def test_of_a_statement_over_several_lines(self, body_of):
        body = body_of("(\n    criterion(out, y)  # mean\n    + 1\n).backward()\n")
        assert receiver_of_backward(body, 3) == "criterion(out, y) + 1"

    def test_of_several_on_a_line_only_a_column_tells(self, body_of):
        body = body_of("first.backward(); second.backward(); optimizer.step()")
        assert receiver_of_backward(body, 1) is None
        assert [receiver_of_backward(body, 1, column) for column in (0, 18)] == ["first", "second"]
        assert receiver_of_backward(body_of("loss = f(x); loss.backward()"), 1) == "loss"

    def test_outside_of_the_source_is_none(self, body_of):
        assert receiver_of_backward(body_of("loss.backward()\n"), 99) is None


class TestBackwardCalls:
    def test_are_all_those_of_the_function_itself(self, body_of):
        body = body_of(
            """
            def train(real):
                loss_d = critic(real).mean()
                loss_d.backward(retain_graph=True)
                penalty = torch.autograd.grad(loss_d, real, create_graph=True)[0].norm()
                if penalty > 1:
                    (loss_d + penalty).backward()
                def closure():
                    loss_d.backward()
            """,
            "train",
        )
        assert [place.line for place in backward_calls(body)] == [3, 4, 6]

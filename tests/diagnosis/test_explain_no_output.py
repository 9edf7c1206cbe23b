"""BS233: a function that torch.func is to differentiate returns no tensor."""

import pytest
from failures import at, evidence, explained

import backsight as bs

RETURNED = {  # the program, and the beginning of the fix
    "def f(x):\n    return x.sum().item()  # here\ntorch.func.grad(f)(torch.ones(3))": (
        "Keep the tensor: on line 2, write `return x.sum()`."
    ),
    "def f(x):\n    e = x.sum()\n    value = float(e)  # here\n    return value\ntorch.func.jacrev(f)(torch.ones(3))": (
        "Keep the tensor: on line 3, write `value = e`."
    ),
    "def f(x):  # here\n    e = x.sum()\ntorch.func.grad(f)(torch.ones(3))": "End f() with `return e`.",
    "def f(x):\n    return x.sum(), 2 * x  # here\ng = torch.func.grad(f)(torch.ones(3))": (
        "Pass has_aux=True: on line 3, write `g, rest = torch.func.grad(f, has_aux=True)(torch.ones(3))`"
    ),
    "def f(x):\n    return x.sum(), x, 2 * x  # here\ng = torch.func.grad(f)\ng(torch.ones(3))": (
        "On line 2, return a pair, the loss and a tuple of the others. Pass has_aux=True to torch.func.grad, which"
    ),
    "def f(x):\n    return x.tolist()  # here\ntorch.autograd.functional.jacobian(f, torch.ones(3))": (
        "Keep the tensor: on line 2, write `return x`."
    ),
}


@pytest.mark.parametrize("source", RETURNED)
def test_the_statement_that_makes_something_else_of_the_tensor_is_named(source):
    finding = explained(source)
    assert finding.code == "BS233"
    assert finding.title.startswith("f() returns ")
    assert finding.source == at(source)
    assert finding.fix.startswith(RETURNED[source])
    assert finding.exact


def test_a_lambda_is_called_so():
    finding = explained("torch.func.grad(lambda x: x.sum().item())(torch.ones(3))")
    assert finding.title == "The lambda returns a float, not a tensor: there is nothing to differentiate."
    assert "differentiates the lambda." in evidence(finding)


def test_of_several_returns_none_is_accused():
    finding = explained(
        """
        def f(x, k):
            if k:
                return len(x)
            return k
        torch.func.grad(f)(torch.ones(3), 2)  # here
        """
    )
    assert finding.code == "BS233"
    assert finding.source == "train.py:5"
    assert not finding.exact


def test_the_same_text_from_elsewhere_names_no_function():
    finding = explained("raise RuntimeError(\"Expected f(*args) to return a Tensor, got <class 'float'>\")")
    assert finding.code == "BS233"
    assert not finding.exact


def test_without_a_traceback_only_the_message_is_told():
    finding = bs.explain(
        RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'int'>")
    )
    assert finding.title == "The function returns an int, but torch.func needs a tensor."


def test_has_aux_is_not_proposed_where_it_is_passed():
    finding = explained(
        """
        def f(x):
            return (x.sum(), x), x  # here
        torch.func.grad(f, has_aux=True)(torch.ones(3))
        """
    )
    assert finding.code == "BS233"
    assert "has_aux" not in finding.fix

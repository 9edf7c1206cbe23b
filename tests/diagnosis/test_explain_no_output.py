"""BS233: a function that torch.func is to differentiate returns no tensor."""

from failures import explained

import backsight as bs


def test_the_same_text_from_elsewhere_names_no_function():
    finding = explained("raise RuntimeError(\"Expected f(*args) to return a Tensor, got <class 'float'>\")")
    assert finding.code == "BS233"
    assert not finding.exact


def test_without_a_traceback_only_the_message_is_told():
    finding = bs.explain(
        RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'int'>")
    )
    assert finding.title == "The function returns an int, but torch.func needs a tensor."

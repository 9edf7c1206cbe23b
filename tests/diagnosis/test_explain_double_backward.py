"""BS215: second derivatives through operations that have only the first."""

import pytest
from failures import explained, failing

import backsight as bs


@pytest.mark.parametrize(
    ("said", "operation"),
    [
        ("derivative for aten::_scaled_dot_product_efficient_attention_backward is not implemented", "scaled_dot"),
        ("derivative for aten::_thnn_fused_lstm_cell_backward is not implemented", "lstm"),
        ("derivative for aten::grid_sampler_2d_backward is not implemented", "grid_sampler_2d"),
        ("the derivative for '_pdist_backward' is not implemented.", "pdist"),
        ("Double backwards is not supported for CuDNN RNNs due to limitations in the CuDNN API.", "rnn"),
    ],
)
def test_what_pytorch_says_on_other_devices_is_known(said, operation):
    finding = explained(f"raise RuntimeError({said!r})")
    assert finding.code == "BS215"
    assert finding.title.startswith(operation)


def test_an_operation_without_any_derivative_is_not_meant():
    assert bs.explain(failing("raise RuntimeError('derivative for aten::foo is not implemented')")).code == "BS200"

"""BS214: tensors made under inference mode that meet autograd."""

from failures import explained


def test_where_it_was_made_is_not_found_the_failing_statement_is_named():
    with_tensor = "import torch\nwith torch.inference_mode():\n    return_value = torch.ones(3)\n"
    namespace: dict = {}
    exec(with_tensor, namespace)
    finding = explained("y = given * torch.ones(3, requires_grad=True)\n", given=namespace["return_value"])
    assert finding.code == "BS214"
    assert finding.source == "train.py:1"
    assert not finding.exact

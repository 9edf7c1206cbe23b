"""Errors of a backward pass: graphs freed, missing or unused, saved tensors changed (BS201 to BS204, BS210, ...)."""

from __future__ import annotations

import torch
from provoking import NotHere, provokes
from torch.utils.checkpoint import checkpoint


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape or (3,), dtype=dtype, requires_grad=True)


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


@provokes("BS201")
def backward_twice():
    loss = leaf().exp().sum()
    loss.backward()
    loss.backward()


@provokes("BS201")
def grad_twice():
    x = leaf()
    loss = x.exp().sum()
    torch.autograd.grad(loss, x)
    torch.autograd.grad(loss, x)


@provokes("BS201")
def backward_twice_through_a_custom_function():
    loss = Exp.apply(leaf()).sum()
    loss.backward()
    loss.backward()


@provokes("BS201")
def backward_twice_through_a_list_of_saved_tensors():
    x = leaf(3, 3)
    loss = x[torch.tensor([0, 1]), torch.tensor([1, 2])].sum()
    loss.backward()
    loss.backward()


@provokes("BS201")
def backward_twice_through_a_module():
    hidden = torch.nn.GRU(2, 2)(torch.ones(1, 1, 2))[1]
    hidden.sum().backward()
    hidden.sum().backward()


@provokes("BS201")
def backward_twice_in_anomaly_mode():
    with torch.autograd.set_detect_anomaly(True):
        loss = leaf().exp().sum()
        loss.backward()
        loss.backward()


@provokes("BS201")
def backward_twice_through_a_compiled_function():
    import torch._dynamo

    loss = torch.compile(lambda x: x.exp().sum(), backend="aot_eager")(leaf())
    loss.backward()
    loss.backward()


@provokes("BS201")
def a_saved_tensor_read_after_it_was_freed():
    result = leaf().exp()
    result.sum().backward()
    result.grad_fn._saved_result


@provokes("BS201")
def a_list_of_saved_tensors_read_after_it_was_freed():
    result = leaf(3, 3)[torch.tensor([0, 1]), torch.tensor([1, 2])]
    result.sum().backward()
    result.grad_fn._saved_indices


@provokes("BS201")
def saved_tensors_of_a_custom_function_read_after_they_were_freed():
    result = Exp.apply(leaf())
    result.sum().backward()
    result.grad_fn.saved_tensors


def _changed(result: torch.Tensor, changed: torch.Tensor) -> None:
    with torch.no_grad():
        changed.add_(1)
    result.sum().backward()


@provokes("BS202")
def a_saved_result_changed():
    y = leaf().exp()
    y.add_(1)
    y.sum().backward()


@provokes("BS202")
def a_saved_result_changed_under_no_grad():
    y = leaf().exp()
    _changed(y, y)


@provokes("BS202")
def a_saved_leaf_changed():
    x = leaf(2, 3)
    _changed(x * x, x)


@provokes("BS202")
def a_saved_scalar_changed():
    y = leaf().sum().exp()
    y.add_(1)
    y.backward()


@provokes("BS202")
def a_saved_constant_changed():
    x, scale = leaf(), torch.ones(3)
    y = x * scale
    scale.add_(1)
    y.sum().backward()


@provokes("BS202")
def a_saved_constant_changed_three_times():
    x, scale = leaf(), torch.ones(3, dtype=torch.float64)
    scale.add_(1)
    y = x * scale
    scale.add_(1).mul_(2)
    y.sum().backward()


@provokes("BS202")
def saved_indices_changed():
    index = torch.tensor([0, 1])
    y = leaf().index_select(0, index)
    index.add_(1)
    y.sum().backward()


@provokes("BS202")
def a_saved_result_of_complex_numbers_changed():
    y = leaf(2, dtype=torch.complex64).exp()
    y.mul_(2)
    y.abs().sum().backward()


@provokes("BS202")
def a_saved_weight_changed_by_an_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = model(torch.ones(5, 3)).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    loss.backward()


@provokes("BS202")
def a_saved_result_changed_through_a_view():
    y = leaf(3, 3).exp()
    y[0] = 0.0
    y.sum().backward()


@provokes("BS202")
def the_base_of_a_saved_view_changed():
    y = leaf(3, 3) * 1
    z = y[0] * y[0]
    y.add_(1)
    z.sum().backward()


@provokes("BS202")
def a_saved_activation_changed_by_a_module():
    torch.nn.ReLU(inplace=True)(y := torch.sigmoid(leaf()))
    y.sum().backward()


@provokes("BS202")
def a_saved_tensor_of_a_custom_function_changed():
    y = Exp.apply(leaf())
    y.add_(1)
    y.sum().backward()


@provokes("BS202")
def the_result_of_a_custom_function_changed_after_it_was_saved():
    y = Double.apply(leaf())
    z = y.pow(2)
    with torch.no_grad():
        y.add_(1)
    z.sum().backward()


@provokes("BS202")
def a_saved_result_changed_in_anomaly_mode():
    with torch.autograd.set_detect_anomaly(True):
        y = leaf().exp()
        y.add_(1)
        y.sum().backward()


@provokes("BS202")
def a_saved_nested_tensor_changed():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    y = torch.nn.functional.relu(x)
    _changed(torch.nested.to_padded_tensor(y, 0.0), y)


@provokes("BS202")
def a_saved_result_of_a_script_changed():
    @torch.jit.script
    def script(x):
        return (x.exp() * x).tanh()

    x = leaf()
    for _ in range(3):
        y = script(x)
        z = y * y
    with torch.no_grad():
        y.add_(1)
    z.sum().backward()


@provokes("BS202")
def a_saved_input_of_a_compiled_function_changed():
    import torch._dynamo

    x, scale = leaf(), torch.ones(3)
    y = torch.compile(lambda x, scale: (x * scale).sin().sum(), backend="aot_eager")(x, scale)
    scale.add_(1)
    y.backward()


@provokes("BS202")
def a_saved_tensor_unpacked_after_it_was_changed():
    y = leaf().exp()
    y.add_(1)
    y.grad_fn.next_functions[0][0]._saved_result


@provokes("BS202")
def a_saved_tensor_unpacked_by_its_handle_after_it_was_changed():
    x, scale = leaf(), torch.ones(3)
    y = x * scale
    scale.add_(1)
    raw = y.grad_fn._raw_saved_other
    if not hasattr(raw, "unpack"):
        raise NotHere
    raw.unpack()


@provokes("BS203")
def backward_of_a_constant():
    torch.ones(()).backward()


@provokes("BS203")
def backward_of_several_of_which_one_is_a_constant():
    torch.autograd.backward([leaf().sum(), torch.ones(())])


@provokes("BS203")
def grad_of_a_constant():
    torch.autograd.grad(torch.ones(()), leaf())


@provokes("BS203")
def backward_of_an_integer():
    leaf().argmax().backward()


@provokes("BS203")
def grad_with_respect_to_a_constant():
    torch.autograd.grad(leaf().sum(), torch.ones(3))


@provokes("BS203")
def grad_of_a_constant_in_several_backwards_at_once():
    torch.autograd.grad(torch.ones(2), leaf(), torch.eye(2), is_grads_batched=True)


@provokes("BS203")
def backward_of_a_constant_in_a_script():
    @torch.jit.script
    def script(loss):
        torch.autograd.backward([loss])

    script(torch.ones(()))


@provokes("BS203")
def grad_of_a_constant_in_a_script():
    @torch.jit.script
    def script(loss, x):
        return torch.autograd.grad([loss], [x])

    script(torch.ones(()), leaf())


@provokes("BS203")
def grad_with_respect_to_a_constant_in_a_script():
    @torch.jit.script
    def script(loss, x):
        return torch.autograd.grad([loss], [x])

    script(leaf().sum(), torch.ones(3))


@provokes("BS204")
def an_unused_input():
    torch.autograd.grad(leaf().sum(), leaf())


@provokes("BS204")
def one_unused_input_of_two():
    x = leaf()
    torch.autograd.grad(x.sum(), [x, leaf()])


@provokes("BS204")
def an_unused_input_with_create_graph():
    torch.autograd.grad(leaf().sum(), leaf(), create_graph=True)


@provokes("BS204")
def an_unused_input_in_several_backwards_at_once():
    torch.autograd.grad(leaf() * 1, leaf(), torch.eye(3), is_grads_batched=True)


@provokes("BS204")
def an_unused_input_in_a_script():
    @torch.jit.script
    def script(loss, x):
        return torch.autograd.grad([loss], [x])

    script(leaf().sum(), leaf())


@provokes("BS204")
def an_unused_input_that_zeros_are_not_wanted_for():
    torch.autograd.grad(leaf().sum(), leaf(), allow_unused=False)


def _differs(**options: object) -> None:
    runs = []

    def function(x):
        runs.append(x)
        return (x.exp().sin() if len(runs) == 1 else x.exp()) * x

    checkpoint(function, leaf(), use_reentrant=False, **options).sum().backward()


@provokes("BS210")
def fewer_tensors_saved_when_recomputed():
    _differs()


@provokes("BS210")
def fewer_tensors_saved_when_recomputed_to_the_end():
    from torch.utils.checkpoint import set_checkpoint_early_stop

    with set_checkpoint_early_stop(False):
        _differs()


@provokes("BS210")
def other_operations_when_recomputed_with_debug():
    _differs(debug=True)


@provokes("BS210")
def more_tensors_saved_when_recomputed():
    from torch.utils.checkpoint import set_checkpoint_early_stop

    runs = []

    def function(x):
        runs.append(x)
        return x.exp() if len(runs) == 1 else x.exp().sin().cos()

    with set_checkpoint_early_stop(False):
        checkpoint(function, leaf(), use_reentrant=False).sum().backward()


def _recomputed(first: torch.Tensor, second: torch.Tensor) -> None:
    scales = [first, second]
    checkpoint(lambda x: (x * scales.pop(0)).sum(), leaf(1), use_reentrant=False).backward()


@provokes("BS210")
def another_shape_when_recomputed():
    _recomputed(torch.ones(2, 3), torch.ones(4))


@provokes("BS210")
def another_dtype_when_recomputed():
    _recomputed(torch.ones(2), torch.ones(2, dtype=torch.float64))


@provokes("BS210")
def a_scalar_when_recomputed():
    _recomputed(torch.ones(2), torch.ones(()))


@provokes("BS210")
def several_tensors_of_another_shape_when_recomputed():
    runs = []

    def function(x):
        runs.append(x)
        return x[: 4 - len(runs)].exp().sin().sum()

    checkpoint(function, leaf(), use_reentrant=False).backward()


@provokes("BS212")
def backward_of_several_values():
    leaf().backward()


@provokes("BS212")
def grad_of_several_values():
    x = leaf()
    torch.autograd.grad(x * 2, x)


@provokes("BS212")
def backward_of_several_values_in_a_script():
    @torch.jit.script
    def script(loss):
        torch.autograd.backward([loss])

    script(leaf() * 1)


@provokes("BS212")
def backward_of_a_complex_number():
    leaf(1, dtype=torch.complex64).sum().backward()


@provokes("BS215")
def cdist_differentiated_twice():
    x = torch.rand(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.cdist(x, torch.rand(5, 3), p=3.0).sum(), x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def pdist_differentiated_twice():
    x = torch.rand(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.nn.functional.pdist(x).sum(), x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def attention_differentiated_twice():
    x = torch.rand(1, 2, 4, 8, requires_grad=True)
    result = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def a_sample_of_a_volume_differentiated_twice():
    x, grid = torch.rand(1, 1, 4, 4, 4, requires_grad=True), torch.rand(1, 2, 2, 2, 3, requires_grad=True)
    y = torch.nn.functional.grid_sample(x, grid, mode="nearest", align_corners=False)
    (gradient,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
    torch.autograd.grad(gradient.sum(), grid)


@provokes("BS215")
def quantization_differentiated_twice():
    x = torch.rand(4, requires_grad=True)
    scale, zero = torch.ones(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    y = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 255, 1.0)
    (gradient,) = torch.autograd.grad(y.sum(), scale, torch.ones(()), create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def ctc_differentiated_twice():
    x = torch.rand(6, 1, 4, requires_grad=True)
    loss = torch.nn.functional.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([6]), torch.tensor([2]))
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def embedding_bag_differentiated_twice():
    x = torch.rand(5, 2, requires_grad=True)
    result = torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), x, mode="max")
    (gradient,) = torch.autograd.grad(result.pow(2).sum(), x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def a_compiled_function_differentiated_twice():
    import torch._dynamo

    x = leaf()
    y = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")(x)
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)


@provokes("BS215")
def a_product_over_zeros_scattered_to_one_place_differentiated_twice():
    source = torch.zeros(3, requires_grad=True)
    y = torch.ones(2).scatter_reduce(0, torch.tensor([0, 0, 1]), source, "prod")
    (gradient,) = torch.autograd.grad(y.sum(), source, create_graph=True)
    torch.autograd.grad(gradient.sum(), source)

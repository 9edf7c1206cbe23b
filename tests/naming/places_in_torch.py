"""Tensors held by the objects of torch and of libraries built on it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from hiding import Built, hide, place, tensor, with_attribute
from transformers.modeling_outputs import CausalLMOutput

# ---- tensors and their graphs


@place("holder.extra")
def attribute_of_a_tensor() -> Built:
    return hide(lambda t: with_attribute(torch.ones(1), t, "extra"))


@place("holder.grad")
def gradient() -> Built:
    leaf = tensor()
    leaf.grad = torch.zeros(3)
    return leaf, weakref.ref(leaf.grad)


@place("holder._base")
def base_of_a_view() -> Built:
    base = torch.ones(3)
    return base[:2], weakref.ref(base)


@place("hook_scale (closure of hold)")
def closure_of_a_tensor_hook() -> Built:
    def hold(hook_scale: torch.Tensor) -> object:
        leaf = tensor()
        leaf.register_hook(lambda grad: grad * hook_scale)
        return leaf

    return hide(hold)


@place("holder.grad_fn.extra")
def attribute_of_a_custom_function_context() -> Built:
    refs = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.extra = tensor()
            refs.append(weakref.ref(ctx.extra))
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    return Double.apply(tensor()), refs[0]


@place("kept (closure of hold)")
def closure_of_a_hook_after_accumulation() -> Built:
    def hold(kept: torch.Tensor) -> object:
        leaf = tensor()
        leaf.register_post_accumulate_grad_hook(lambda leaf: kept)
        return leaf

    return hide(hold)


# ---- modules


@place("holder.0.weight")
def parameter() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    return model, weakref.ref(model[0].weight)


@place("holder.blocks.1.head.weight")
def parameter_deep_in_a_module() -> Built:
    model = torch.nn.Module()
    head = torch.nn.ModuleDict({"head": torch.nn.Linear(3, 3)})
    model.blocks = torch.nn.ModuleList([torch.nn.ReLU(), head])
    return model, weakref.ref(head["head"].weight)


@place("holder.0.weight.grad")
def gradient_of_a_parameter() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    model[0].weight.grad = torch.zeros(3, 3)
    return model, weakref.ref(model[0].weight.grad)


@place("holder.running_mean")
def buffer() -> Built:
    model = torch.nn.BatchNorm1d(3)
    return model, weakref.ref(model.running_mean)


@place("holder.cache")
def tensor_kept_on_a_module() -> Built:
    model = torch.nn.Linear(3, 3)
    model.cache = torch.ones(3)
    return model, weakref.ref(model.cache)


@place("holder.parametrizations.weight.original0")
def parametrized_weight() -> Built:
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    return model, weakref.ref(model.parametrizations.weight.original0)


@place("holder.0")
def parameter_list() -> Built:
    parameters = torch.nn.ParameterList([tensor()])
    return parameters, weakref.ref(parameters[0])


@place("holder.module.weight")
def averaged_model() -> Built:
    averaged = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(3, 3))
    return averaged, weakref.ref(averaged.module.weight)


@place("holder.0.weight")
def symbolically_traced_model() -> Built:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 3)))
    return traced, weakref.ref(traced.get_parameter("0.weight"))


@place("kept (closure of hold)")
def closure_of_a_forward_hook() -> Built:
    def hold(kept: torch.Tensor) -> object:
        model = torch.nn.Linear(2, 2)
        model.register_forward_hook(lambda module, args, out: kept)
        return model

    return hide(hold)


# ---- optimizers


@place("holder[0].state[holder[1].0.weight]['exp_avg']")
def optimizer_state() -> Built:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    return (optimizer, model), weakref.ref(optimizer.state[model[0].weight]["exp_avg"])


@place("holder.optimizer.state[<Parameter>]['momentum_buffer']")
def optimizer_behind_a_scheduler() -> Built:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return scheduler, weakref.ref(optimizer.state[model.weight]["momentum_buffer"])


@place("holder[0].state[holder[1].weight]['d']")
def direction_of_lbfgs() -> Built:
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.LBFGS(model.parameters())

    def closure() -> Any:
        loss = model(torch.ones(3)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return (optimizer, model), weakref.ref(optimizer.state[model.weight]["d"])


# ---- data


@place("holder.tensors[0]")
def dataset() -> Built:
    return hide(torch.utils.data.TensorDataset)


@place("holder.data")
def packed_sequence() -> Built:
    return hide(lambda t: torch.nn.utils.rnn.PackedSequence(t, torch.ones(3, dtype=torch.long)))


@place("holder.loc")
def distribution() -> Built:
    return hide(lambda t: torch.distributions.Normal(t, 1.0))


@place("holder['logits']")
def model_output() -> Built:
    return hide(lambda t: CausalLMOutput(logits=t))

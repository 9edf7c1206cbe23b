"""What to do where PyTorch's message leaves only one thing to be wrong: a pattern of it, and the fix."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

_REMEDIES: dict[str, str] = {
    r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False": "Ask only where there is a "
    "gradient, `if {x}.requires_grad:`. To get one although all parameters behind {x} are frozen, make the input of "
    "the model require grad: inputs.requires_grad_() before the forward pass.",
    r"(?:non-leaf Tensor to|cannot assign '.*' (?:object )?(?:as|to)) parameter '(?P<name>\w+)'": "To compute with a "
    "tensor in place of the parameter and keep its graph: torch.func.functional_call({module}, {{'{name}': value}}, "
    "(x,)). Only to overwrite the values: `with torch.no_grad(): {module}.{name}.copy_(value)`.",
    r"would mutate a captured Tensor": "Compute a new tensor instead of changing one from outside the function, or "
    "pass it to the function as an argument.",
    r"save_for_backward can only save": "Store what is not a tensor as an attribute of ctx: ctx.scale = scale, and "
    "read ctx.scale in backward.",
    r"Legacy autograd function": "Make forward and backward static methods (@staticmethod, ctx as their first "
    "argument), and call TheFunction.apply(...) instead of an instance.",
    r"must implement either the backward or vjp": "Define backward in the Function: a @staticmethod that takes ctx "
    "and one gradient for each output, and returns one for each argument of forward.",
    r"must override the setup_context": "Split forward(ctx, x) into forward(x), without ctx, and setup_context(ctx, "
    "inputs, output), which saves. For vmap, also set generate_vmap_rule = True in the class.",
    r"inside (?:of )?a (?:function being transformed|functorch transform)": "In a function that torch.func "
    "transforms, take gradients with torch.func: grad(f)(x) in place of requires_grad_(), backward() and "
    "torch.autograd.grad().",
    r"grad_and_value.*to return a scalar": "Return one number, such as loss.mean(); for further results, "
    "has_aux=True; for the derivative of a vector, torch.func.jacrev.",
    r"different than None at position (?P<name>\d+)": "Return None at position {name}: forward got no tensor there.",
    r"incompatible with \.grad\(\)": "Pass use_reentrant=False to checkpoint.",
    r"some parameters appear in more than one": "Put each parameter in one group: head = "
    "set(model.head.parameters()), and for the rest [p for p in model.parameters() if p not in head].",
    r"doesn't match the size of optimizer's group": "Create the optimizer over the parameters that it had when its "
    "state was saved, in the same order, before load_state_dict().",
    r"does not support sparse gradients": "Give the embedding sparse=False. Or give {x} an optimizer of its own, "
    "torch.optim.SparseAdam([{x}]), and leave it out of this one.",
    r"non-finite, so it cannot be clipped|returned nan values in its": "`backsight run --nonfinite` names the "
    "operation and the line that produced the first NaN or infinity.",
    r"missing 1 required positional argument: 'closure'": "Pass a closure: a function that zeroes the gradients, "
    "computes the loss, runs backward and returns the loss; then optimizer.step(closure).",
    r"Closure use is not currently supported": "Run backward first, then scaler.step(optimizer) without a closure. "
    "LBFGS cannot be used with a GradScaler.",
    r"DistributedDataParallel is not needed": "Use a model without trainable parameters unwrapped. If it should "
    "train, enable its gradients before wrapping.",
    r"process group has not been initialized": "Call torch.distributed.init_process_group(...) first, in each "
    "process; torchrun sets what it reads from the environment.",
    r"more than 1 value per channel when training": "In training, batch norm needs more than one value per channel: "
    "drop_last=True in the DataLoader avoids a last batch of one; for a single sample call model.eval() first.",
}
_DTYPE = re.compile(r"same dtype|expected scalar type|dtypes match|[Ii]nput type .* should be the same|Found dtype")


def remedy(message: str, tensors: Sequence[tuple[str, torch.Tensor]], module: str, *, custom: bool) -> str:
    """Return what to do about an error with this message that is about `tensors`; empty where that is not clear.

    module: what the program calls the module of PyTorch's in which it was raised, empty if none.
    custom: whether it was raised in the backward of a custom Function.
    """
    for pattern, text in _REMEDIES.items():
        if match := re.search(pattern, message, re.DOTALL):
            first = tensors[0][0] if tensors else "x"
            return text.format(x=first, name=match.groupdict().get("name"), module=module or "module")
    if "shapes cannot be multiplied" in message:
        return _of_features(tensors, module)
    return _of_dtypes(tensors, custom) if _DTYPE.search(message) else ""


def _of_features(tensors: Sequence[tuple[str, torch.Tensor]], module: str) -> str:
    """The number of inputs that a linear layer would need."""
    given = next((each for text, each in tensors if text == f"the input of {module}"), None)
    weight = next((each for text, each in tensors if text == f"{module}.weight" and each.dim() == 2), None)
    if given is None or weight is None or not given.dim() or given.shape[-1] == weight.shape[1]:
        return ""
    size = given.shape[-1]
    return (
        f"{module} takes {weight.shape[1]} features and gets {size}: make it as nn.Linear({size}, {weight.shape[0]}), "
        f"or give it a tensor whose last dimension is {weight.shape[1]}."
    )


def _of_dtypes(tensors: Sequence[tuple[str, torch.Tensor]], custom: bool) -> str:
    """Convert what was computed to the dtype of what is trained."""
    floating = [(text, each) for text, each in tensors if each.is_floating_point()]
    if len({each.dtype for _, each in floating}) < 2:
        return ""
    if custom:
        device = f'device_type="{floating[0][1].device.type}"'
        return (
            f"Let backward run as forward did: decorate forward with @torch.amp.custom_fwd({device}) and backward with "
            f"@torch.amp.custom_bwd({device}), each below its @staticmethod."
        )
    kept = next(((text, each) for text, each in floating if isinstance(each, torch.nn.Parameter)), floating[0])
    other = next((text, each) for text, each in floating if each.dtype != kept[1].dtype)
    how = "" if " " in other[0] else f": {other[0]}.to({kept[0]}.dtype)"
    return f"Convert {other[0]}, which is {_kind(other[1])}, as {kept[0]} is {_kind(kept[1])}{how}."


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")

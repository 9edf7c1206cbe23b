"""What may be left on a model, its optimizer and PyTorch itself when nobody observes a training any more: nothing."""

from __future__ import annotations

import sys

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

_OF_MODULES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_STEPS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_GLOBAL = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks")


def hooks(model, *of):
    """Return every hook there is, by where it hangs."""
    found = [table for each in model.modules() for name in _OF_MODULES for table in getattr(each, name).values()]
    found += [hook for each in of for name in _OF_STEPS for hook in getattr(each, name).values()]
    found += [hook for each in model.parameters() for hook in (each._post_accumulate_grad_hooks or {}).values()]
    found += [hook for each in model.parameters() for hook in (each._backward_hooks or {}).values()]
    found += [hook for name in _GLOBAL for hook in getattr(modules, name).values()]
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        found += getattr(optimizers, name).values()
    return [hook for hook in found if "backsight" in str(getattr(hook, "__module__", type(hook).__module__))]


def modes():
    """Return the modes of PyTorch that are on, and the tracing function of Python."""
    return torch.overrides._get_current_function_mode_stack(), sys.gettrace()

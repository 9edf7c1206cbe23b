"""What may be left on a model, its optimizer and PyTorch itself when nobody observes a training any more: nothing."""

from __future__ import annotations

from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

_OF_MODULES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_STEPS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")

others = []
"""What hung everywhere before the test, left by the test of another: see `conftest.py`."""


def everywhere():
    """Return the hooks that are called for all modules and all optimizers."""
    found = [hook for name in _OF_MODULES for hook in getattr(modules, f"_global{name}").values()]
    names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
    return [*found, *(hook for name in names for hook in getattr(optimizers, name).values())]


def hooks(model, *of):
    """Return the hooks of backsight that this test has left: on a model, on optimizers, and everywhere."""
    found = [hook for each in model.modules() for name in _OF_MODULES for hook in getattr(each, name).values()]
    found += [hook for each in of for name in _OF_STEPS for hook in getattr(each, name).values()]
    found += [hook for each in model.parameters() for hook in (each._post_accumulate_grad_hooks or {}).values()]
    found += [hook for each in model.parameters() for hook in (each._backward_hooks or {}).values()]
    found += [hook for hook in everywhere() if not any(hook is other for other in others)]
    return [hook for hook in found if "backsight" in str(getattr(hook, "__module__", type(hook).__module__))]

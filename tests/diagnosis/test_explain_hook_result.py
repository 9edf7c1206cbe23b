"""BS225: which hook returned what cannot take the place of a gradient."""

import pytest
from failures import at, evidence, explained

import backsight as bs

START = """
import functools
from torch import nn
layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)
"""


def test_of_several_hooks_only_the_one_that_may_have_changed_the_shape_is_named():
    source = f"""{START}
h.register_hook(lambda grad: -2 * grad)
h.register_hook(lambda grad: grad.clamp(-1, 1))
h.register_hook(lambda grad: grad.sum(0))  # here
h.register_hook(lambda grad: None)
h.sum().backward()
"""
    finding = explained(source)
    assert finding.code == "BS225"
    assert finding.source == at(source)
    assert finding.title.endswith("h has shape 4×2.")


def test_where_two_may_be_the_one_both_are_shown_and_none_is_blamed():
    source = f"""{START}
def first(grad):
    return grad * x.mean()
def other(grad):
    return grad[:1]
h.register_hook(functools.partial(first))
h.register_hook(functools.partial(other))
h.sum().backward()
"""
    finding = explained(source)
    assert not finding.exact
    assert evidence(finding).count("may be the one: registers the hook on h.") == 2
    assert finding.source == at(source, "h.sum().backward()")


def test_the_shape_of_a_name_that_stands_for_another_tensor_by_now_is_not_told():
    source = f"{START}h.register_hook(lambda grad: grad[0])\nh = h.sum()\nh.backward()"
    assert explained(source).title == "The hook on h returns a gradient of a different shape than it received."


OF_MODULES = {
    "def hook(module, grad_input, grad_output):\n    return grad_output  # here\n"
    "layer.register_full_backward_hook(hook)": ("The hook on layer returns a gradient of a different shape"),
    "def twice(module, grad_input, grad_output):\n    return grad_input * 2  # here\n"
    "layer.register_full_backward_hook(twice)": (
        "The hook on layer returns 2 gradients; it received 1 and must return as many."
    ),
    "def doubled(module, grad_output):\n    return grad_output * 2  # here\n"
    "layer.register_full_backward_pre_hook(doubled)": (
        "The hook on layer returns 2 gradients; it received 1 and must return as many."
    ),
}


@pytest.mark.parametrize("hook", OF_MODULES)
def test_hooks_of_modules(hook):
    source = f"{START}{hook}\nlayer(x).sum().backward()"
    finding = explained(source)
    assert finding.title.startswith(OF_MODULES[hook])
    assert finding.source == at(source)
    assert finding.exact


WRITTEN = {  # what a hook of a module returns, and what it must return
    "(grad_input[0] * 2, None)": "return (grad_input[0] * 2,)",
    "grad_input[0] * 2": "return (grad_input[0] * 2,)",
    "grad_input * 2": "",
    "(grad_input[0], grad_output[0])": "",
}


@pytest.mark.parametrize("returned", WRITTEN)
def test_the_gradients_that_a_hook_of_a_module_returns_are_written_out_where_they_are_as_many_as_are_due(returned):
    hook = f"def given(module, grad_input, grad_output):\n    return {returned}\n"
    finding = explained(f"{START}{hook}layer.register_full_backward_hook(given)\nlayer(x).sum().backward()")
    expected = f"write `{WRITTEN[returned]}`, a tuple" if WRITTEN[returned] else "Otherwise return a tuple"
    assert expected in finding.fix


def test_a_hook_of_a_module_whose_input_needs_no_gradient():
    hook = "def given(module, grad_input, grad_output):\n    return grad_output  # here\n"
    source = f"{START}{hook}layer.register_full_backward_hook(given)\nlayer(x.detach()).sum().backward()"
    finding = explained(source)
    assert finding.title == "The hook on layer returns a gradient for an input that needs none."
    assert finding.source == at(source)


OF_NODES = {
    "h.grad_fn.register_hook(lambda inputs, outputs: inputs[0])": (
        "returns a Tensor; it must return a tuple of gradients."
    ),
    "h.grad_fn.register_hook(lambda inputs, outputs: inputs * 2)": "returns 6 gradients; it received 3",
    "h.register_hook(lambda grad: (grad,))": "returns a tuple; it must return a tensor or None.",
}


@pytest.mark.parametrize("hook", OF_NODES)
def test_what_a_hook_of_a_node_or_a_tensor_returns(hook):
    source = f"{START}{hook}\nh.sum().backward()"
    finding = explained(source)
    assert OF_NODES[hook] in finding.title
    assert finding.source == at(source, hook)


def test_a_hook_of_another_name_is_not_blamed():
    source = f"{START}h.register_hook(lambda grad: grad[0].expand_as(grad))\nh.register_hook(torch.mean)  # here\n"
    finding = explained(f"{source}h.sum().backward()")
    assert "lambda" not in evidence(finding)
    assert finding.source == at(source)


def test_a_hook_that_the_programs_text_does_not_show_is_told_as_such():
    finding = explained(f"{START}getattr(h, 'register_hook')(torch.mean)\nh.sum().backward()")
    assert finding.title == "A hook returns a gradient of a different shape than it received."
    assert "PyTorch calls the hook 'mean'; the source text registers none by that name." in evidence(finding)
    assert not finding.exact


def test_a_flat_gradient_gets_its_shape_back():
    source = f"""{START}
def hook(grad):
    flat = grad.reshape(-1)
    return flat * 2  # here
h.register_hook(hook)
h.sum().backward()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "write `return (flat * 2).view_as(grad)`" in finding.fix
    assert "remove" not in finding.fix


def test_a_number_of_a_flat_gradient_does_not():
    source = f"""{START}
def hook(grad):
    flat = grad.flatten()
    return flat.norm()
h.register_hook(hook)
h.sum().backward()
"""
    assert "view_as" not in explained(source).fix


HOOKS = {
    "def hook(g):\n    return (g * 2).sum(0)": ("hook", "3"),
    "def hook(g):\n    flat = g.norm(dim=1)\n    return flat": ("hook", "5"),
    "def hook(g):\n    return torch.cat([g, g], 1)": ("hook", "5×6"),
    "def made(k):\n    return lambda g: g[:k]": ("made(4)", "4×3"),
    "": ("lambda g: g[:, :2]", "5×2"),
}
REGISTERED = """
def scaled(g):
    return g * 3
x = torch.ones(5, 3, requires_grad=True)
w = x * 2
w.register_hook(scaled)
y = w.exp()
y.register_hook({})
y.sum().backward()
"""


class TestShapes:
    @pytest.mark.parametrize("defined", HOOKS)
    def test_are_both_told_under_a_watch(self, defined):
        hook, shape = HOOKS[defined]
        with bs.watch(level="exact"):
            finding = explained(defined + REGISTERED.format(hook))
        assert finding.title == f"The hook on y returns a gradient of shape {shape}, but it received one of shape 5×3."

    def test_what_a_function_of_the_program_returns_is_not_told_by_what_it_is_given(self):
        defined = "def short(g):\n    return g[:2]\ndef hook(g):\n    return short(g * 2)\n"
        with bs.watch(level="exact"):
            finding = explained(defined + REGISTERED.format("hook"))
        assert finding.title.endswith("a different shape than it received: y has shape 5×3.")

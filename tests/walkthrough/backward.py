"""What the engine makes of the same graph, to hold a walk against."""

import torch
from torch.utils._pytree import tree_leaves

import backsight as bs


def tensors_in(value):
    """Return the tensors in nested containers."""
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def by_the_engine(roots, leaves, gradients):
    """Return what `torch.autograd.grad` gives for each leaf, leaving the graph as it is; None where it raises."""
    try:
        return torch.autograd.grad(roots, leaves, gradients, retain_graph=True, allow_unused=True)
    except RuntimeError:  # eigenvectors, whose phase no gradient may depend on
        return None


def same_bits(a, b):
    """Whether two gradients are the same to the bit, of the same dtype, shape and layout; NaN is the same as NaN."""
    if a is None or b is None:
        return a is b
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return False
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a.detach(), b.detach()))
    a, b = a.contiguous().resolve_neg(), b.contiguous().resolve_neg()
    return torch.equal(torch.nan_to_num(a, nan=1e30), torch.nan_to_num(b, nan=1e30)) and torch.equal(
        a.isnan(), b.isnan()
    )


def roots_of(output):
    """Return the tensors in `output` that have a graph, each once."""
    return list({id(t): t for t in tensors_in(output) if t.requires_grad}.values())


def differences(output, names=False):
    """Return what differs between a walk and the engine, both from seeded gradients; None where the engine refuses."""
    roots = roots_of(output)
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in roots]
    w = bs.walk(*roots, gradient=gradients, names=names)
    leaves = [leaf.tensor() for leaf in w.graph.leaves]
    before = [leaf.grad for leaf in leaves]
    expected = by_the_engine(roots, leaves, gradients)
    if expected is None:
        return None
    w.run()
    assert all(a is b for a, b in zip(before, [leaf.grad for leaf in leaves], strict=True)), ".grad was touched"
    pairs = zip(w.graph.leaves, expected, w.gradients, strict=True)
    return [leaf.label for leaf, theirs, ours in pairs if not same_bits(theirs, ours)]

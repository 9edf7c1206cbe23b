"""Walk every differentiable sample of every operator, and check every node: `python tests/walkthrough/every_sample.py`.

It takes a few minutes, and exits with 1 if a gradient differs from the engine's by one bit, or if a check fails.
"""

import sys
import warnings
from collections import Counter

import torch
from backward import differences, roots_of

import backsight as bs


def samples():
    """Yield the name of each operator with each of its outputs that has a graph."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        dtype = next((d for d in (torch.float64, torch.float32, torch.complex128) if op.supports_dtype(d, "cpu")), None)
        if dtype is None or not op.supports_autograd:
            continue
        torch.manual_seed(0)
        for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
            output = op(sample.input, *sample.args, **sample.kwargs)
            if roots_of(output):
                yield op.formatted_name, output


def checks(output):
    """Yield each check of a walk from seeded gradients, with the node that it is of."""
    generator = torch.Generator().manual_seed(1)
    roots = roots_of(output)
    gradients = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in roots]
    for step in bs.walk(*roots, gradient=gradients, names=False):
        if step.node.leaf is None:
            yield step.node.name, step.check


def main():
    warnings.simplefilter("ignore")
    counted, wrong = Counter(), []
    for name, output in samples():
        found = differences(output)
        if found is None:
            counted["refused by the engine"] += 1
            continue
        counted["samples that differ" if found else "samples equal to the bit"] += 1
        wrong += [f"{name}: {leaf} differs" for leaf in found]
        for node, check in checks(output):
            counted[f"nodes: {check.method or 'not checked'}{'' if check.ok is not False else ', wrong'}"] += 1
            wrong += [f"{name}: {node}: {check}"] if check.ok is False else []
    for what, count in sorted(counted.items()):
        print(f"{count:8,} {what}")
    print("\n".join(wrong[:50]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

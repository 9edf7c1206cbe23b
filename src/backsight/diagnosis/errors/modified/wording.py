"""What a person calls an operation, why its backward needs what it had saved, and how often that was changed."""

from __future__ import annotations

from backsight.diagnosis.wording import failing
from backsight.findings.evidence import Fact
from backsight.story.subject import Subject

_SPOKEN = {
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot"), "a matrix product"),
    **dict.fromkeys(("mkldnnrnnlayer", "cudnnrnn"), "a recurrent layer"),
    "convolution": "a convolution",
    **dict.fromkeys(("linalgvectornorm", "linalgmatrixnorm", "norm"), "a norm"),
    **dict.fromkeys(("cdist", "euclideandist"), "a distance"),
    "logsoftmax": "log_softmax",
    **dict.fromkeys(("scaleddotproductattention", "scaleddotproductflashattentionforcpu"), "attention"),
    **dict.fromkeys(("linalginvex", "linalginv", "inverse"), "an inverse"),
    **dict.fromkeys(("linalgsolveex", "linalgsolvetriangular"), "a linear solve"),
    "linalgcholeskyex": "a Cholesky factorization",
    "linalgdet": "a determinant",
    "logsumexp": "a logsumexp",
    "nativegroupnorm": "a group norm",
    "embedding": "an embedding",
    "cumprod": "a cumulative product",
    "nativelayernorm": "a layer norm",
    "nativebatchnorm": "a batch norm",
    "maxpool2dwithindices": "max_pool2d",
    "maxpool3dwithindices": "max_pool3d",
    "pow": "a power",
    "mul": "a product",
    "div": "a quotient",
}


def spoken(operation: str) -> str:
    """The operation as a person would call it: `a matrix product` for `addmm`, `sigmoid` as it is."""
    return _SPOKEN.get(operation, operation)


_NEEDS_RESULT = {"relu": "the gradient of relu needs its result to know which entries were positive"}
_NEEDS_INPUT = {
    "mul": "the gradient of a product needs both factors",
    "div": "the gradient of a quotient needs both parts",
    "pow": "the gradient of a power needs the base",
    "convolution": "the gradient of a convolution needs its input and its weights",
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot"), "the gradient of a matrix product needs both factors"),
}


def why_saved(operation: str, result: bool, custom: bool = False) -> str:
    """Say why the backward of an operation needs what it saved; a custom Function may have saved anything.

    >>> why_saved("sigmoid", result=True)
    'the gradient of sigmoid is computed from its result'
    """
    if custom:
        return f"the backward of {operation} reads it from ctx.saved_tensors"
    if result:
        return _NEEDS_RESULT.get(operation, f"the gradient of {spoken(operation)} is computed from its result")
    return _NEEDS_INPUT.get(operation, f"the gradient of {spoken(operation)} is computed from its input")


def since(subject: Subject) -> str:
    """`it was modified once since (version 0 → 1)`."""
    times = {1: "once", 2: "twice"}.get(subject.times, f"{subject.times} times")
    return f"it was modified {times} since (version {subject.saved.expected} → {subject.saved.version})"


def needs(subject: Subject, what: str = "needs the original value") -> tuple[Fact, ...]:
    """The line that failed, as evidence; nothing where it is not known."""
    return failing(subject.failure, f"{what}; {since(subject)}.")

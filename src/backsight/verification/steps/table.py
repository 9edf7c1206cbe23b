"""`ALTERATIONS`: the mistakes in a step, with their words. A new one is a function of `alterations.py` and a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from backsight.verification.steps.alterations import (
    along_another_dimension,
    averaged,
    constant,
    divisor_not_squared,
    exchanged,
    exponent_kept,
    exponent_left_out,
    flipped,
    flipped_in_the_first_dimension,
    flipped_in_the_last_dimension,
    input_for_output,
    inverted,
    left_out,
    negated,
    not_arranged,
    not_transposed,
    of_transposed,
    on_the_other_condition,
    on_the_other_side,
    output_for_input,
    overwritten,
    passed_on,
    reshaped,
    skipped,
    softmax_along_another_dimension,
    squared,
    summed,
    two_sided,
    unconjugated,
    value_skipped,
)
from backsight.verification.steps.step import Step


class Alteration(NamedTuple):
    """A mistake in one operand of a step, with the words for it.

    In the words `{step}` is the step, and `{operand}` which of its operands, or its input where it has one;
    `{constant}` is "a constant", or "constants" where there are two steps.
    """

    code: str
    alter: Callable[[Step, int], torch.Tensor | None]
    title: str
    evidence: str
    fix: str


ALTERATIONS: tuple[Alteration, ...] = (
    Alteration(
        "BS415",
        constant,
        "takes {step} for {constant}",
        "It is right if {step} did not change with `{argument}`; but it does, and the output with it.",
        "Add the gradient that comes through {step}.",
    ),
    Alteration(
        "BS415",
        left_out,
        "leaves out the path through {operand} of {step}",
        "It is right if {operand} of {step} did not change with `{argument}`. The gradient is the sum over all paths.",
        "Add the gradient that comes through {operand}: the product rule.",
    ),
    Alteration(
        "BS416",
        passed_on,
        "leaves out the derivative of {step}",
        "It is right if the derivative of {step} with respect to {operand} were 1.",
        "Multiply by that derivative: the chain rule.",
    ),
    Alteration(
        "BS416",
        input_for_output,
        "takes the input of {step} where its output belongs",
        "The derivative is written in terms of the output of {step}, and computed with its input.",
        "Save the output of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS416",
        output_for_input,
        "takes the output of {step} where its input belongs",
        "It is right for the derivative of {step} at its output; it must be taken at its input.",
        "Save the input of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS403",
        negated,
        "has the wrong sign in the part through {step}",
        "It is right if the derivative of {step} with respect to {operand} had the other sign.",
        "Negate that part.",
    ),
    Alteration(
        "BS404",
        summed,
        "differentiates {step} as if it were a sum",
        "It is right without the division in {step}.",
        "Divide by the number of entries that {step} averages.",
    ),
    Alteration(
        "BS404",
        averaged,
        "differentiates {step} as if it were a mean",
        "It is right with a division by the number of entries in {step}.",
        "Do not divide: each entry of a sum has the derivative 1.",
    ),
    Alteration(
        "BS416",
        exponent_left_out,
        "leaves out the exponent in the derivative of {step}",
        "The derivative of xⁿ is n xⁿ⁻¹; the factor n is missing.",
        "Multiply that part by n.",
    ),
    Alteration(
        "BS416",
        exponent_kept,
        "does not lower the exponent in the derivative of {step}",
        "The derivative of xⁿ is n xⁿ⁻¹, and n xⁿ is computed.",
        "Lower the exponent by one.",
    ),
    Alteration(
        "BS416",
        on_the_other_side,
        "exchanges the sides of {step}",
        "It is right for the derivative of {step} at minus its input.",
        "Turn the comparison round.",
    ),
    Alteration(
        "BS416",
        squared,
        "squares the derivative of {step}",
        "It is right with the square of the derivative of {step}.",
        "Derive {step} anew: a power is one too high.",
    ),
    Alteration(
        "BS416",
        inverted,
        "divides by the derivative of {step}",
        "It is right with one over the derivative of {step}.",
        "Multiply by the derivative.",
    ),
    Alteration(
        "BS416",
        skipped,
        "computes with the values before {step}",
        "It is the gradient of a forward without {step}.",
        "Save what {step} returned, and go through it in backward.",
    ),
    Alteration(
        "BS416",
        value_skipped,
        "takes derivatives at the values before {step}",
        "What comes after {step} is differentiated at the values before it; the derivative of {step} itself is right.",
        "Use what {step} returned.",
    ),
    Alteration(
        "BS405",
        of_transposed,
        "lacks a transpose of the gradient that arrives at {step}",
        "It is right with that gradient transposed; the sizes are equal, so nothing complains.",
        "Transpose it: for c = a @ b the gradients are dc @ b.T and a.T @ dc.",
    ),
    Alteration(
        "BS405",
        not_arranged,
        "leaves out {step}",
        "It is the gradient of a forward without {step}; the sizes are equal, so nothing complains.",
        "Put it in: forward used the tensor turned.",
    ),
    Alteration(
        "BS416",
        divisor_not_squared,
        "does not square the divisor in the derivative of {step}",
        "The derivative of a / b with respect to b is -a / b², and -a / b is computed.",
        "Divide by b once more.",
    ),
    Alteration(
        "BS405",
        reshaped,
        "reshapes where it must undo {step}",
        "It is grad_output in the shape of the input of {step}, its entries in another order.",
        "Exchange the dimensions back, and do not reshape.",
    ),
    Alteration(
        "BS406",
        softmax_along_another_dimension,
        "sums over the wrong dimension in the derivative of {step}",
        "The sum in y * (grad_output - (grad_output * y).sum(dim)) must run over the dimension of {step}.",
        "Use the same dim in backward as in forward.",
    ),
    Alteration(
        "BS405",
        flipped,
        "has the kernel of {step} the wrong way round",
        "It is right with the kernel flipped in its spatial dimensions.",
        "The input's gradient is a convolution with the flipped kernel: use conv_transpose, or torch.nn.grad. "
        "The weight's is not flipped.",
    ),
    *(
        Alteration(
            "BS405",
            alter,
            "turns the kernel of {step} in some of its dimensions only",
            f"It is right with the kernel flipped in the {which} spatial dimension alone; all or none are flipped.",
            "Flip all spatial dimensions, or use conv_transpose or torch.nn.grad.",
        )
        for alter, which in ((flipped_in_the_last_dimension, "last"), (flipped_in_the_first_dimension, "first"))
    ),
    Alteration(
        "BS405",
        unconjugated,
        "lacks a conjugate in the derivative of {step}",
        "It is right for real numbers; of complex ones the derivative must be conjugated.",
        "Multiply by the conjugate, as in other.conj().",
    ),
    Alteration(
        "BS405",
        not_transposed,
        "applies {step} again, and not its transpose",
        "What it computes is the derivative of {step} times grad_output; right is the transpose of that derivative: a "
        "shift back, a sum from the other end, a flipped kernel, a transposed matrix, a conjugate.",
        "Apply the transpose: what sends each output entry back to the inputs it came from.",
    ),
    Alteration(
        "BS406",
        overwritten,
        "lacks a sum over repeated indices of {step}",
        "Where an index occurs more than once, only the last gradient is kept.",
        "grad[index] = grad_output overwrites; grad.index_add_(0, index, grad_output), or scatter_add_, adds.",
    ),
    Alteration(
        "BS406",
        along_another_dimension,
        "spreads the gradient of {step} along the wrong dimension",
        "It is right transposed: the dimensions have one size, so nothing complains.",
        "Unsqueeze grad_output in the dimension that {step} reduced.",
    ),
    Alteration(
        "BS408",
        on_the_other_condition,
        "takes the other side of {step}",
        "It is right for the condition of {step} turned round.",
        "Use the condition of forward.",
    ),
    Alteration(
        "BS416",
        two_sided,
        "differentiates {step} as if its spectrum were two-sided",
        "Of a real signal only half of the spectrum is kept: every entry but the first (and the last, where the length "
        "is even) stands for two.",
        "Use torch.fft.fft(..., n=n).real on the gradient of rfft, or halve and double these entries.",
    ),
    Alteration(
        "BS407",
        exchanged,
        "exchanges the derivatives of the two operands of {step}",
        "It is right with the derivative of the first operand for the second, and the other way round.",
        "Exchange them.",
    ),
)

PATHS = Alteration(
    "BS415",
    left_out,
    "counts the paths through {step} wrongly",
    "It is {first} times what comes through the first operand of {step}, and {second} times what comes through the "
    "second.",
    "Count each once: where an input is used twice, its gradient is the sum over both uses.",
)
"""One path counted twice and the other not at all, as 2 A x where (A + Aᵀ) x is right."""

SCALED = Alteration(
    "BS404",
    left_out,
    "has {factor} the derivative of {step}",
    "It is right if the derivative of {step} with respect to {operand} were {factor} what it is.",
    "Multiply that part by {inverse}.",
)
"""A derivative that is off by a factor: the factor follows from the gradients with that derivative and without it."""

PASSED_SCALED = Alteration(
    "BS416",
    passed_on,
    "has a number in the place of the derivative of {step}",
    "It is right if the derivative of {step} with respect to {operand} were {factor} 1 everywhere.",
    "Multiply by that derivative: the chain rule.",
)

FACTOR = Alteration(
    "BS416",
    passed_on,
    "{has} the factor {step}",
    "Every entry would be right if it were {changed} by {step}.",
    "Multiply the derivatives of all steps of forward, from its output back to this input.",
)

WHOLE = Alteration(
    "BS405",
    not_transposed,
    "applies the derivative of forward, and not its transpose",
    "What it returns is J @ grad_output, and must be Jᵀ @ grad_output: what forward rotates, shifts or sums one way "
    "goes back the other way.",
    "Apply the transpose: what sends each output entry back to the inputs it came from.",
)

UP_TO = Alteration(
    "BS416",
    passed_on,
    "leaves out the derivative of everything up to {step}",
    "It is right if {step} had the derivative 1 with respect to `{argument}`.",
    "Multiply by the derivative of what stands inside: the chain rule.",
)

EARLIER = Alteration(
    "BS416",
    skipped,
    "computes with {stand_in} where forward has the result of {step}",
    "It is the gradient of a forward with {stand_in} in the place of the result of {step}.",
    "Save what {step} returned.",
)
"""A target, a mask or a weight in the form that it had before forward changed it."""

STAND_IN = Alteration(
    "BS416",
    skipped,
    "computes the derivative of {step} with another tensor",
    "It is right with {stand_in} in the place of {operand} of {step}.",
    "Save the tensor that {step} got.",
)
"""A derivative computed from the wrong saved tensor."""

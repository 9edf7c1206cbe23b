"""`ALTERATIONS`: the mistakes in a step, with their words. A new one is a function of `alterations.py` and a row."""

from __future__ import annotations

from backsight.verification.steps.alteration import Alteration
from backsight.verification.steps.alterations import (
    along_another_dimension,
    averaged,
    constant,
    divisor_not_squared,
    exchanged,
    exclusive,
    exclusive_and_not_transposed,
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
    result_for_slope,
    skipped,
    softmax_along_another_dimension,
    squared,
    summed,
    two_sided,
    unconjugated,
    value_skipped,
    without_cross_terms,
)
from backsight.verification.steps.factors import other_factor
from backsight.verification.steps.numbers import NUMBERS
from backsight.verification.steps.step import Step


def _of_product(step: Step, operand: int) -> dict[str, str]:
    factor = other_factor(step, operand)
    return (
        {"instead": f", not `{factor}`", "slope": f"`{factor}`"}
        if factor
        else {"instead": "", "slope": "its derivative"}
    )


REPEATED = Alteration(
    "BS406",
    constant,
    "as if {step} repeated {other}",
    "It repeats {was}, along dimension {dimension}.",
    "Sum over the copies: reshape to (n, copies) after repeat_interleave, to (copies, n) after repeat.",
)

REVERSED = Alteration(
    "BS405",
    constant,
    "as if the result of {step} came in reverse order along {dimensions}",
    "With the gradient that arrives there reversed, the returned gradient is reproduced.",
    "Send each entry of the gradient back to the place that its output entry came from.",
)

REVERSED_OUT = Alteration(
    "BS405",
    constant,
    "with the derivative of {step} in reverse order along dimension {dimension}",
    "With what goes back to {operand} reversed along that dimension, the returned gradient is reproduced.",
    "Reverse the order: what is flipped before a running sum is flipped back after it.",
)

ALTERATIONS: tuple[Alteration, ...] = (
    *NUMBERS,
    Alteration(
        "BS415",
        constant,
        "as if {step} were {constant}",
        "But {short} {changes} with `{argument}`, and the output with {it}.",
        "Add the gradient that comes through {short}.",
    ),
    Alteration(
        "BS415",
        left_out,
        "as if {operand} of {step} were a constant",
        "But {operand} of {short} {changes} with `{argument}`, and the gradient is the sum over all paths.",
        "Add the gradient that comes through {operand}: the product rule.",
    ),
    Alteration(
        "BS416",
        passed_on,
        "as if the derivative of {step} were 1{instead}",
        "That is the derivative with respect to {operand}; with 1 in its place, the returned gradient is reproduced.",
        "Multiply what comes through {step} by {slope}, and no other term of the gradient: the chain rule.",
        _of_product,
    ),
    Alteration(
        "BS416",
        input_for_output,
        "with the input of {step} where its output belongs",
        "Its derivative in terms of its output, computed with the input, reproduces the returned gradient.",
        "Save the output of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS416",
        output_for_input,
        "with the output of {step} where its input belongs",
        "With its derivative at its output, the returned gradient is reproduced; it must be taken at its input.",
        "Save the input of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS403",
        negated,
        "with the wrong sign in the part through {step}",
        "With the other sign of the derivative with respect to {operand}, the returned gradient is reproduced.",
        "Negate that part.",
    ),
    Alteration(
        "BS404",
        summed,
        "as if {step} were a sum",
        "Without the division in {step}, the returned gradient is reproduced.",
        "Divide by the number of entries that {step} averages.",
    ),
    Alteration(
        "BS404",
        averaged,
        "as if {step} were a mean",
        "With a division by the number of entries in {step}, the returned gradient is reproduced.",
        "Do not divide: each entry of a sum has the derivative 1.",
    ),
    Alteration(
        "BS416",
        exponent_left_out,
        "as if the derivative of {step} had no factor n",
        "The derivative of xⁿ is n xⁿ⁻¹; xⁿ⁻¹ reproduces the returned gradient.",
        "Multiply that part by n.",
    ),
    Alteration(
        "BS416",
        exponent_kept,
        "as if the derivative of {step} did not lower the exponent",
        "The derivative of xⁿ is n xⁿ⁻¹; n xⁿ reproduces the returned gradient.",
        "Lower the exponent by one.",
    ),
    Alteration(
        "BS416",
        on_the_other_side,
        "with the sides of {step} exchanged",
        "With the derivative of {step} at minus its input, the returned gradient is reproduced.",
        "Reverse the comparison.",
    ),
    Alteration(
        "BS416",
        result_for_slope,
        "with the result of {step} in place of its derivative",
        "With its result where its derivative belongs, the returned gradient is reproduced.",
        "Multiply what comes through {step} by its derivative, and no other term of the gradient: the chain rule.",
    ),
    Alteration(
        "BS416",
        squared,
        "with the derivative of {step} squared",
        "With the square of the derivative of {step}, the returned gradient is reproduced.",
        "Derive {step} again: a power is one too high.",
    ),
    Alteration(
        "BS416",
        inverted,
        "divided by the derivative of {step}, and not multiplied",
        "With one over the derivative of {step}, the returned gradient is reproduced.",
        "Multiply by the derivative.",
    ),
    Alteration(
        "BS416",
        skipped,
        "as if forward ran without {step}",
        "It is the right gradient of a forward without {step}.",
        "Save what {step} returned, and go through it in backward.",
    ),
    Alteration(
        "BS416",
        value_skipped,
        "with derivatives taken at the values before {step}",
        "What comes after {step} is differentiated at the values before it; the derivative of {step} itself is right.",
        "Use what {step} returned.",
    ),
    Alteration(
        "BS405",
        of_transposed,
        "with the gradient that arrives at {step} transposed",
        "The sizes are equal, so no error is raised.",
        "Transpose it: for c = a @ b the gradients are dc @ b.T and a.T @ dc.",
    ),
    Alteration(
        "BS405",
        not_arranged,
        "as if forward ran without {step}",
        "It is the right gradient of a forward without {step}; the sizes are equal, so no error is raised.",
        "Put it in: forward used the tensor turned.",
    ),
    Alteration(
        "BS416",
        divisor_not_squared,
        "as if the derivative of {step} did not square the divisor",
        "The derivative of a / b with respect to b is -a / b²; -a / b reproduces the returned gradient.",
        "Divide by b once more.",
    ),
    Alteration(
        "BS405",
        reshaped,
        "with a reshape where {step} must be undone",
        "It is grad_output in the shape of the input of {step}, its entries in another order.",
        "Exchange the dimensions back, and do not reshape.",
    ),
    Alteration(
        "BS406",
        softmax_along_another_dimension,
        "with a sum over the wrong dimension in the derivative of {step}",
        "The sum in y * (grad_output - (grad_output * y).sum(dim)) must run over the dimension of {step}.",
        "Use the same dim in backward as in forward.",
    ),
    Alteration(
        "BS415",
        without_cross_terms,
        "as if each output entry of {step} depended only on the input entry at the same place",
        "With the diagonal of its Jacobian alone, the derivative of each entry by the one at the same place, the "
        "returned gradient is reproduced.",
        "Sum over all output entries. For y = softmax(x), that is "
        "y * (grad_output - (grad_output * y).sum(-1, keepdim=True)).",
    ),
    Alteration(
        "BS405",
        flipped,
        "with the kernel of {step} the wrong way round",
        "With the kernel flipped in its spatial dimensions, the returned gradient is reproduced.",
        "The input's gradient is a convolution with the flipped kernel: use conv_transpose, or torch.nn.grad. "
        "The weight's is not flipped.",
    ),
    *(
        Alteration(
            "BS405",
            alter,
            "with the kernel of {step} flipped in some of its dimensions",
            f"With the kernel flipped in the {which} spatial dimension alone, the returned gradient is reproduced.",
            "Flip all spatial dimensions, or use conv_transpose or torch.nn.grad.",
        )
        for alter, which in ((flipped_in_the_last_dimension, "last"), (flipped_in_the_first_dimension, "first"))
    ),
    Alteration(
        "BS405",
        unconjugated,
        "without a conjugate in the derivative of {step}",
        "For real numbers that makes no difference; of complex ones the derivative must be conjugated.",
        "Multiply by the conjugate, as in other.conj().",
    ),
    Alteration(
        "BS405",
        not_transposed,
        "with the derivative of {step} where its transpose belongs",
        "A gradient goes back through the transpose of a derivative: a shift back, a sum from the other end, a flipped "
        "kernel, a transposed matrix, a conjugate.",
        "Apply the transpose: what sends each output entry back to the inputs it came from.",
    ),
    Alteration(
        "BS406",
        overwritten,
        "without the sum over repeated indices of {step}",
        "Where an index occurs more than once, only the last gradient is kept.",
        "grad[index] = grad_output overwrites; grad.index_add_(0, index, grad_output), or scatter_add_, adds.",
    ),
    Alteration(
        "BS405",
        exclusive,
        "as if {step} left out the entry itself",
        "Entry i of {step} is a sum up to entry i, that one included; the gradient of entry j is a sum from entry j "
        "on, that one included.",
        "Include the entry itself: grad.flip(dim).cumsum(dim).flip(dim), or total - grad.cumsum(dim) + grad.",
    ),
    Alteration(
        "BS405",
        exclusive_and_not_transposed,
        "with a sum up to the entry before in the derivative of {step}",
        "The gradient of entry j is a sum from entry j on, that one included.",
        "Sum from the other end: grad.flip(dim).cumsum(dim).flip(dim).",
    ),
    Alteration(
        "BS406",
        along_another_dimension,
        "with the gradient of {step} spread along the wrong dimension",
        "That part is right transposed: the dimensions have one size, so no error is raised.",
        "Unsqueeze grad_output in the dimension that {step} reduced.",
    ),
    Alteration(
        "BS408",
        on_the_other_condition,
        "with the condition of {step} negated",
        "Where the condition holds, the gradient goes to the first tensor, and elsewhere to the second.",
        "Use the condition of forward.",
    ),
    Alteration(
        "BS416",
        two_sided,
        "as if the spectrum of {step} were two-sided",
        "Of a real signal only half of the spectrum is kept: every entry but the first (and the last, where the length "
        "is even) stands for two.",
        "Use torch.fft.fft(..., n=n).real on the gradient of rfft, or halve and double these entries.",
    ),
    Alteration(
        "BS407",
        exchanged,
        "with the derivatives of the two operands of {step} exchanged",
        "The derivative of the first operand stands where that of the second belongs, and vice versa.",
        "Exchange them.",
    ),
)

INTEGER = Alteration(
    "BS405",
    constant,
    "as if {step} had {new} where it has {old}",
    "With that derivative of {step}, the returned gradient is reproduced.",
    "Use the numbers of forward: entry i of the output belongs to place i * stride + k of the input.",
)

TAKEN = Alteration(
    "BS405",
    constant,
    "as if {step} took its entries {where} along {dimensions}",
    "{was}",
    "Send each entry of the gradient back to the place that its output entry came from.",
)

IN_RUNS = Alteration(
    "BS415",
    constant,
    "as if {what} were a constant in {which} of its {count} runs",
    "But it changes with `{argument}` in each run of the loop, and the gradient goes back through all of them.",
    "Go through the loop of forward from its end, and hand the gradient of the state on to the step before.",
)

OF_RUN = Alteration(
    "BS416",
    constant,
    "with {operand} of {step} taken {which}",
    "It is the result of {origin}; with that of {other} in the derivative, the returned gradient is reproduced.",
    "{fix}",
)

MASKED = Alteration(
    "BS408",
    constant,
    "with another mask for {step} than forward has",
    "With the mask flipped at {count} entries{between}, the returned gradient is reproduced.{tensor}",
    "Compute the mask in backward with the same comparison as in forward: same tensor, bound and direction.",
)

PATHS = Alteration(
    "BS415",
    left_out,
    "with the paths through {step} counted wrongly",
    "It is {first} times what comes through the first operand of {step}, and {second} times what comes through the "
    "second.",
    "Count each once: where an input is used twice, its gradient is the sum over both uses.",
)
"""One path counted twice and the other not at all, as 2 A x where (A + Aᵀ) x is right."""

SCALED = Alteration(
    "BS404",
    left_out,
    "as if the derivative of {step} were {factor} what it is",
    "That is the derivative with respect to {operand}.",
    "Multiply that part by {inverse}.",
)
"""A derivative that is off by a factor: the factor follows from the gradients with that derivative and without it."""

SCALED_BOTH = Alteration(
    "BS404",
    constant,
    "as if the derivatives of {step} were {factor} what they are",
    "Both are off by the same factor.",
    "Multiply these parts by {inverse}.",
)

PASSED_SCALED = Alteration(
    "BS416",
    passed_on,
    "as if the derivative of {step} were a number",
    "If that with respect to {operand} is {factor} 1 everywhere, the returned gradient is reproduced.",
    "Multiply what comes through {step} by that derivative, and no other term of the gradient: the chain rule.",
)

FACTOR = Alteration(
    "BS416",
    passed_on,
    "{has} by {step}",
    "Every entry would be right if it were {changed} by the result of {step}.",
    "Multiply the derivatives of all steps of forward, from its output back to this input.",
)

WHOLE = Alteration(
    "BS405",
    not_transposed,
    "with the derivative of forward where its transpose belongs",
    "What it returns is J @ grad_output, and must be Jᵀ @ grad_output: what forward rotates, shifts or sums one way "
    "goes back the other way.",
    "Apply the transpose: what sends each output entry back to the inputs it came from.",
)

UP_TO = Alteration(
    "BS416",
    passed_on,
    "as if the derivative of everything up to {step} were 1",
    "If {step} has the derivative 1 with respect to `{argument}`, the returned gradient is reproduced.",
    "Multiply what comes through {step} by the derivative of what stands inside, and no other term: the chain rule.",
)

EARLIER = Alteration(
    "BS416",
    skipped,
    "as if forward had {stand_in} in place of the result of {step}",
    "It is the right gradient of a forward that computes with {stand_in} there.",
    "Save what {step} returned.",
)
"""A target, a mask or a weight in the form that it had before forward changed it."""

STAND_IN = Alteration(
    "BS416",
    skipped,
    "with {stand_in} in place of {old} in the derivative of {step}",
    "With {stand_in} in place of {operand} of {step}, the returned gradient is reproduced.",
    "Save the tensor that {step} got, and use it in backward.",
)
"""A derivative computed from the wrong saved tensor."""

TIMES_TENSOR = Alteration(
    "BS416",
    skipped,
    "with {factor} as an extra factor in the derivative of {step}",
    "That is the derivative with respect to {operand}; with it multiplied by {factor}, the returned gradient is "
    "reproduced.",
    "{mended}.",
)
"""A projection on the input itself, and not on its unit vector: a factor that is a norm for each row."""

OF_OUTPUT_OTHER = Alteration(
    "BS416",
    skipped,
    "with {stand_in} in place of the output in the derivative of {step}",
    "That derivative is written in terms of the output; with {stand_in} in place of {where}, the returned gradient "
    "is reproduced.",
    "Save what {step} returned, and use it in backward.",
)

AT_INDEX = Alteration(
    "BS405",
    skipped,
    "with {stand_in} in place of {old} in the derivative of {step}",
    "Forward has {old} there; with {stand_in}, the returned gradient is reproduced.",
    "Use {old} in backward where forward uses it.",
)
"""Another tensor of integers for an index."""

READ_AT_INDEX = Alteration(
    "BS405",
    skipped,
    "with {stand_in} in place of {old} in the derivative of {step}",
    "Forward reads at {old} in {origin}; with what stands at {stand_in}, the returned gradient is reproduced.",
    "Read at {old} in backward where forward does.",
)

FORWARD_AT_INDEX = Alteration(
    "BS405",
    skipped,
    "as if {step} took its entries at {stand_in}, and not at {old}",
    "With the entries that stand at {stand_in} in what follows, the returned gradient is reproduced.",
    "Read at {old} in backward where forward does.",
)

OTHER_SUM = Alteration(
    "BS406",
    skipped,
    "with a {kind} over {dimensions} in the derivative of {step}",
    "{operand} of {step} is a {kind} of other entries; with a {kind} over {dimensions} in its derivative, the returned "
    "gradient is reproduced.",
    "Sum over the same entries as forward: with the same dim, or by the same index, as in "
    "zeros.index_add(0, index, grad)[index].",
)
"""A sum over all entries in place of one over those of a row, or of one index."""

OTHER_NORM = OTHER_SUM._replace(
    evidence="The divisor of {step} is a sum of other entries: with a sum over {dimensions} in "
    "(grad - (grad * output).sum()) / divisor, the returned gradient is reproduced."
)

SCALED_APART = Alteration(
    "BS404",
    left_out,
    "as if the derivative of {step} were {factor} what it is, and that of {other} {second}",
    "With these two factors, the returned gradient is reproduced.",
    "Multiply the first part by {inverse}, and the second by {inverse_of_second}.",
)
"""Two derivatives, each off by a factor of its own."""

"""What the backward of an operation does, in a sentence. `g` is the gradient that arrives.

Words take the place of symbols where the formula of `derivatives.yaml` calls a C++ function that shows nothing.
"""

from __future__ import annotations

from backsight.tape.ops import VIEWS, op_name

_SENTENCES: dict[str, str] = {
    # sums, differences, products
    "Add": "Addition passes g to both operands, unchanged.",
    "Sub": "Subtraction passes g to the left operand and -g to the right one.",
    "Rsub": "Subtraction from a constant passes on -g.",
    "Neg": "Negation passes on -g.",
    "Mul": "Each factor gets g times the other factor.",
    "Div": "The numerator gets g divided by the denominator; the denominator gets -g · result / denominator.",
    "Pow": "x^n passes on n · x^(n-1) · g.",
    "Addcmul": "The sum gets g; each factor gets g times the other factor and the constant.",
    "Addcdiv": "The sum gets g; the quotient is differentiated as a division, times the constant.",
    "Lerp": "start gets (1 - weight) · g, end gets weight · g.",
    # matrices
    "Mm": "The left matrix gets g @ rightᵀ, the right matrix leftᵀ @ g.",
    "Bmm": "For each matrix of the batch: the left one gets g @ rightᵀ, the right one leftᵀ @ g.",
    "Mv": "The matrix gets the outer product of g and the vector, the vector gets matrixᵀ @ g.",
    "Dot": "Each vector gets g times the other vector.",
    "Addmm": "The bias gets g, summed over the rows; the input gets g @ weight, the weight gets inputᵀ @ g.",
    "Baddbmm": "The summand gets g; of each product the left matrix gets g @ rightᵀ, the right one leftᵀ @ g.",
    "Linear": "The input gets g @ weight, the weight gᵀ @ input, and the bias g summed over the rows.",
    "Convolution": (
        "The input gets g convolved with the flipped kernel, the weight the correlation of the input with g, "
        "and the bias g summed over batch and positions."
    ),
    "ScaledDotProductAttention": "value gets attentionᵀ @ g; g @ valueᵀ goes through the softmax to query and key.",
    # functions of each element
    "Relu": "Where the input was positive g passes; elsewhere it is zero.",
    "Threshold": "Where the input was above the threshold g passes; elsewhere it is zero.",
    "LeakyRelu": "Where the input was positive g passes; elsewhere g times the slope.",
    "Elu": "Where the input was positive g passes; elsewhere g times exp(x).",
    "Hardtanh": "Where the input lay between the bounds g passes; outside it is zero.",
    "Clamp": "Where the input lay between the bounds g passes; outside it is zero.",
    "Sigmoid": "g · s · (1 - s), with s the result: at most a quarter of g, and almost nothing where it saturates.",
    "Tanh": "g · (1 - t²), with t the result: almost nothing where it saturates.",
    "Gelu": "g times the slope of GELU at the input, which is about 0 far below zero and about 1 far above.",
    "Silu": "g times the slope of x · sigmoid(x) at the input.",
    "Softplus": "g · sigmoid(x).",
    "Exp": "g times the result, since exp is its own derivative.",
    "Log": "g divided by the input: large where the input is close to zero.",
    "Log1P": "g divided by 1 + input.",
    "Sqrt": "g / (2 · result): infinite where the input was zero.",
    "Rsqrt": "-g / 2 · result³.",
    "Reciprocal": "-g · result².",
    "Sin": "g · cos(x).",
    "Cos": "-g · sin(x).",
    "Abs": "g times the sign of the input; zero at zero.",
    "Erf": "g · 2/√π · exp(-x²).",
    "Where": "Where the condition held g goes to the first operand, elsewhere to the second.",
    "MaskedFill": "Where the mask was set the value came from outside, so g becomes zero there.",
    "Maximum": "g goes to the larger operand; where both are equal each gets half.",
    "Minimum": "g goes to the smaller operand; where both are equal each gets half.",
    # normalisations, attention, losses
    "Softmax": "s · (g - Σ g·s), with s the result: subtracts what all classes share.",
    "SafeSoftmax": "s · (g - Σ g·s), with s the result; a fully masked row gets zero.",
    "LogSoftmax": "g - softmax · Σ g: each class gets its own g, less its probability's share of all.",
    "NllLoss": "Each row's target gets -g · weight (divided by their sum for a mean); every other class gets zero.",
    "NllLoss2D": "At each position the target gets -g · weight; every other class gets zero.",
    "MseLoss": "2 · (input - target) · g, divided by the number of elements for a mean.",
    "BinaryCrossEntropy": "(p - target) / (p · (1 - p)) · g, divided by the number of elements for a mean.",
    "BinaryCrossEntropyWithLogits": "(sigmoid(x) - target) · g, divided by the number of elements for a mean.",
    "NativeLayerNorm": (
        "The input gets g · weight / σ, with its mean over the row and its part along the normalised row taken out; "
        "the weight gets g times the normalised input, the bias g, both summed over the rows."
    ),
    "NativeBatchNorm": (
        "The input gets g · weight / σ, in training with its mean over the batch and its part along the normalised "
        "batch taken out; the weight gets g times the normalised input, the bias g, both summed over the batch."
    ),
    "NativeGroupNorm": "As in LayerNorm, over the channels of a group: mean and part along the normalised group go.",
    "FusedRmsNorm": "The input gets g · weight / rms, with its part along the normalised row taken out.",
    "NativeDropout": "g passes where the mask kept the element, scaled by 1 / (1 - p); elsewhere it is zero.",
    "LinalgVectorNorm": "g times the input divided by its norm: a unit vector.",
    # sums and choices
    "Sum": "Every element that was summed gets g.",
    "Mean": "Every element gets g divided by how many were averaged.",
    "Var": "2 · (x - mean) · g, divided by the number of elements (less the correction).",
    "Std": "(x - mean) / (std · number) · g.",
    "Cumsum": "Each element gets the sum of g from its place to the end.",
    "Prod": "Each element gets g times the product of all the others.",
    "Max": "The largest element gets g; the others get zero (equal ones share it).",
    "Min": "The smallest element gets g; the others get zero (equal ones share it).",
    "Amax": "The largest elements share g; the others get zero.",
    "Logsumexp": "g times the softmax of the input.",
    "Embedding": "Each row of g is added to the row of the table that its index chose; rows not chosen get zero.",
    "Gather": "g is added at the places that the index read; all others get zero.",
    "Index": "g is added at the places that the index read; all others get zero.",
    "IndexSelect": "g is added to the rows that the index chose; all others get zero.",
    "Select": "g goes back to the one slice that was taken; all others get zero.",
    "Slice": "g goes back to the range that was taken; the rest gets zero.",
    "Narrow": "g goes back to the range that was taken; the rest gets zero.",
    "Split": "The gradients of the pieces are joined again; a piece that nobody used counts as zero.",
    "SplitWithSizes": "The gradients of the pieces are joined again; a piece that nobody used counts as zero.",
    "Chunk": "The gradients of the pieces are joined again; a piece that nobody used counts as zero.",
    "Unbind": "The gradients of the slices are stacked again; a slice that nobody used counts as zero.",
    "Cat": "g is cut into the pieces that were joined, and each gets its own.",
    "Stack": "g is cut into the tensors that were stacked, and each gets its own.",
    "Repeat": "g is summed over the copies.",
    "MaxPool2DWithIndices": "g goes to the largest element of each window; the others get zero.",
    "AvgPool2D": "Every element of a window gets g divided by the size of the window.",
    # what only hands on
    "Clone": "A copy passes g on unchanged.",
    "Expand": "g is summed over the copies that expanding made.",
    "ToCopy": "g is cast or moved back to where the input was.",
    "CopySlices": "Where the view was written to, g goes to what was written; elsewhere to what was there before.",
    "UnsafeView": "g is viewed in the shape of the input.",
}

_VIEW = "Only the layout changes: g is viewed in the shape of the input."
_ATTENTION = _SENTENCES["ScaledDotProductAttention"]


def sentence(node: str) -> str:
    """Return what the backward of a node does, in a sentence; empty for an operation that has none here.

    ```python
    sentence("ReluBackward0")       # 'Where the input was positive g passes; elsewhere it is zero.'
    ```
    """
    op = op_name(node.removesuffix("_copy"))
    if op.startswith("ScaledDotProduct"):
        return _ATTENTION
    return _SENTENCES.get(op) or (_VIEW if op in VIEWS else "")

"""Small programs in which NaN or infinity is born, and programs that only look like it."""

from __future__ import annotations

BEGIN = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
"""

FORWARD = {
    "log of 0": (
        """
        p = torch.tensor([0.5, 0.0, 0.2], requires_grad=True)
        loss = p.log().sum()  # here
        """,
        "p.log() is -inf: p is 0.0 there.",
        "Keep its input above 0: p.clamp_min(1e-12).log().",
    ),
    "log of a negative number": (
        """
        gap = torch.tensor([0.5, -0.25], requires_grad=True)
        loss = torch.log(gap).sum()  # here
        """,
        "torch.log(gap) is NaN: gap is -0.25 there, and log is undefined below 0.0.",
        "Keep its input above 0: torch.log(gap.clamp_min(1e-12)).",
    ),
    "log of a softmax": (
        """
        scores = torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True)
        p = torch.softmax(scores, dim=1)
        loss = -torch.log(p[0, 2])  # here
        """,
        "torch.log(p[0, 2]) is -inf: p[0, 2] is 0.0 there.",
        "Use a fused function, which avoids the small number: torch.log_softmax(scores, dim), or F.cross_entropy on "
        "the scores.",
    ),
    "log of 1 - sigmoid": (
        """
        score = torch.tensor([200.0], requires_grad=True)
        p = torch.sigmoid(score)
        loss = -torch.log(1 - p).mean()  # here
        """,
        "torch.log(1 - p) is -inf: 1 - p is 0.0 there.",
        "Use a fused function, which avoids the small number: F.logsigmoid(score), "
        "F.logsigmoid(-score) for the log of 1 - sigmoid(score), or F.binary_cross_entropy_with_logits.",
    ),
    "an entropy at 0": (
        """
        p = torch.tensor([0.0, 1.0], requires_grad=True)
        loss = (p * torch.log(p)).sum()  # here
        """,
        "torch.log(p) is -inf: p is 0.0 there.",
        "torch.xlogy(p, p), which is 0 at 0; torch.special.entr for an entropy.",
    ),
    "log1p of -1": (
        """
        x = torch.tensor([-1.0], requires_grad=True)
        loss = torch.log1p(x).sum()  # here
        """,
        "torch.log1p(x) is -inf: x is -1.0 there.",
        "Keep its input above -1: torch.log1p(x.clamp_min(-1 + 1e-7)).",
    ),
    "0 / 0": (
        """
        hits = torch.tensor([1.0, 0.0], requires_grad=True)
        count = torch.tensor([1.0, 0.0])
        loss = (hits / count).sum()  # here
        """,
        "hits / count is NaN: hits and count are both 0.0 there.",
        "Keep what it divides by away from 0: hits / count.clamp_min(1e-8); add a small number instead if it can "
        "be negative.",
    ),
    "1 / 0": (
        """
        x = torch.tensor([2.0, 0.0], requires_grad=True)
        loss = (1 / x).sum()  # here
        """,
        "1 / x is infinite: x is 0.0 there.",
        "Keep what it divides by away from 0: 1 / x.clamp_min(1e-8); add a small number instead if it can be negative.",
    ),
    "a vector of length 0, normalised": (
        """
        x = torch.zeros(1, 3, requires_grad=True)
        loss = (x / x.norm(dim=1, keepdim=True)).sum()  # here
        """,
        "x / x.norm(dim=1, keepdim=True) is NaN: x and x.norm(dim=1, keepdim=True) are both 0.0 there.",
        "F.normalize(x, dim=...), which keeps the norm above 1e-12; or x.norm(dim=1, keepdim=True).clamp_min(1e-12).",
    ),
    "sqrt of a negative number": (
        """
        x = torch.tensor([1.0, -0.001], requires_grad=True)
        loss = torch.sqrt(x).sum()  # here
        """,
        "torch.sqrt(x) is NaN: x is -0.001 there.",
        "Keep its input above 0: torch.sqrt(x.clamp_min(1e-12)). (Rounding can push the difference of two large "
        "numbers below it.)",
    ),
    "rsqrt of 0": (
        """
        x = torch.zeros(2, requires_grad=True)
        loss = x.rsqrt().sum()  # here
        """,
        "x.rsqrt() is infinite: x is 0.0 there.",
        "Keep its input away from 0: x.clamp_min(1e-12).rsqrt().",
    ),
    "exp of a large number": (
        """
        x = torch.tensor([1.0, 100.0], requires_grad=True)
        loss = x.exp().sum()  # here
        """,
        "x.exp() is infinite: x is 100.0 there, and exp of more than 88.72 does not fit into float32.",
        "Stay in the logarithm (log_softmax, logsumexp, log-probabilities), subtract the largest value first, or "
        "clamp the argument: .clamp(max=80).",
    ),
    "log of a sum of exp": (
        """
        x = torch.tensor([1.0, 100.0], requires_grad=True)
        loss = torch.log(torch.exp(x).sum())  # here
        """,
        "torch.exp(x) is infinite: x is 100.0 there, and exp of more than 88.72 does not fit into float32.",
        "torch.logsumexp(x, dim), which subtracts the largest value first.",
    ),
    "log of 1 + exp": (
        """
        x = torch.tensor([100.0], requires_grad=True)
        loss = torch.log(1 + torch.exp(x)).sum()  # here
        """,
        "torch.exp(x) is infinite: x is 100.0 there, and exp of more than 88.72 does not fit into float32.",
        "F.softplus(x), which is log(1 + exp(x)) for x of any size.",
    ),
    "a softmax by hand": (
        """
        x = torch.tensor([1.0, 100.0], requires_grad=True)
        weights = torch.exp(x) / torch.exp(x).sum()  # here
        loss = weights.square().sum()
        """,
        "torch.exp(x) is infinite: x is 100.0 there, and exp of more than 88.72 does not fit into float32.",
        "torch.softmax(x, dim), which subtracts the largest value first.",
    ),
    "inf - inf": (
        """
        x = torch.tensor([100.0], requires_grad=True)
        e = torch.exp(x)  # here
        loss = (e - e).sum()
        """,
        "torch.exp(x) is infinite: x is 100.0 there, and exp of more than 88.72 does not fit into float32.",
        "Stay in the logarithm (log_softmax, logsumexp, log-probabilities), subtract the largest value first, or "
        "clamp the argument: .clamp(max=80).",
    ),
    "softmax of a row that is masked as a whole": (
        """
        scores = torch.randn(2, 3, requires_grad=True)
        masked = scores.masked_fill(torch.tensor([[True] * 3, [False] * 3]), float("-inf"))
        loss = masked.softmax(-1).sum()  # here
        """,
        "masked.softmax(-1) is NaN: masked is -inf in a whole row, so nothing is left to choose from.",
        "Leave one position of each row unmasked. Or mask with torch.finfo(scores.dtype).min instead of -inf, and "
        "set fully masked rows to 0 afterwards.",
    ),
    "products in float16": (
        """
        x = torch.full((4,), 300.0, dtype=torch.half, requires_grad=True)
        loss = (x * x).sum()  # here
        """,
        "x * x is infinite: the result is larger than 65,504, the largest float16.",
        "Compute it in float32 (.float() on its input), or use bfloat16, which has the range of float32.",
    ),
    "a linear layer in float16": (
        """
        layer = nn.Linear(64, 4).half()
        nn.init.constant_(layer.weight, 100.0)
        x = torch.full((2, 64), 100.0, dtype=torch.half)
        loss = layer(x).sum()  # here
        """,
        "layer(x) is infinite: the result is larger than 65,504, the largest float16.",
        "Compute it in float32 (.float() on its input), or use bfloat16, which has the range of float32.",
    ),
    "acos beyond 1": (
        """
        cosine = torch.tensor([1.0001, 0.5], requires_grad=True)
        loss = torch.acos(cosine).sum()  # here
        """,
        "torch.acos(cosine) is NaN: cosine is 1.0001 there, outside the domain of acos.",
        "Keep its input inside the range: cosine.clamp(-1 + 1e-7, 1 - 1e-7); or use torch.atan2 of the sine and the "
        "cosine, which has no such edge.",
    ),
    "a fractional power of a negative number": (
        """
        x = torch.tensor([-1.0, 1.0], requires_grad=True)
        loss = x.pow(0.3).sum()  # here
        """,
        "x.pow(0.3) is NaN: x is -1.0 there, and a fractional power of a negative number is not real.",
        "Keep the base above 0: x.clamp_min(1e-12).pow(0.3).",
    ),
    "a negative power of 0": (
        """
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        loss = (x ** -1.5).sum()  # here
        """,
        "x ** -1.5 is infinite: x is 0.0 there, and the exponent is negative.",
        "Keep the base above 0: x.clamp_min(1e-12) ** (-1.5).",
    ),
    "std of one value": (
        """
        rewards = torch.randn(3, 1, requires_grad=True)
        loss = rewards.std(dim=1).sum()  # here
        """,
        "rewards.std(dim=1) is NaN: rewards has the shape (3, 1), and one value has no spread: n - 1 is 0, and 0 "
        "/ 0 is NaN.",
        "std(..., correction=0), which is 0 for one value. Or skip groups with only one value.",
    ),
    "var of nothing": (
        """
        x = torch.randn(3, requires_grad=True)
        loss = x[x > 100].var()  # here
        """,
        "x[x > 100].var() is NaN: x[x > 100] has the shape (0,): of no values there is none.",
        "Skip it when nothing is left.",
    ),
    "mean of nothing": (
        """
        x = torch.randn(3, requires_grad=True)
        loss = x[x > 100].mean()  # here
        """,
        "x[x > 100].mean() is NaN: x[x > 100] is empty, and the mean of no values is 0 / 0.",
        "Skip it when nothing is left; or x[x > 100].sum() / max(x[x > 100].numel(), 1).",
    ),
    "cross-entropy over ignored targets": (
        """
        scores, target = torch.randn(3, 5, requires_grad=True), torch.full((3,), -100)
        loss = F.cross_entropy(scores, target)  # here
        """,
        "F.cross_entropy(scores, target) is NaN: every target is ignore_index, and the mean over no target is 0 / 0.",
        'Skip such a batch, or divide by a count that is at least 1: F.cross_entropy(..., reduction="sum") / '
        "(target != ignore_index).sum().clamp_min(1).",
    ),
    "cross-entropy as a module": (
        """
        criterion = nn.CrossEntropyLoss(ignore_index=0)
        scores, target = torch.randn(3, 5, requires_grad=True), torch.zeros(3, dtype=torch.long)
        loss = criterion(scores, target)  # here
        """,
        "criterion(scores, target) is NaN: every target is ignore_index, and the mean over no target is 0 / 0.",
        'Skip such a batch, or divide by a count that is at least 1: F.cross_entropy(..., reduction="sum") / '
        "(target != ignore_index).sum().clamp_min(1).",
    ),
}

BACKWARD = {
    "sqrt of a sum of squares at 0": (
        """
        x = torch.zeros(3, requires_grad=True)
        loss = (x ** 2).sum().sqrt()  # here
        """,
        "The gradient of (x ** 2).sum().sqrt() is infinite: sqrt has an infinite slope at 0.0.",
        "torch.linalg.vector_norm, whose gradient at 0 is 0; or a small number inside the sqrt: ((x ** 2).sum() +"
        " 1e-12).sqrt().",
    ),
    "a distance between equal points": (
        """
        a, b = torch.ones(3, requires_grad=True), torch.ones(3)
        difference = (a - b).square()
        loss = torch.sqrt(difference.mean())  # here
        """,
        "The gradient of torch.sqrt(difference.mean()) is infinite: sqrt has an infinite slope at 0.0.",
        "Add a small number inside the sqrt, not outside it: torch.sqrt(difference.mean() + 1e-12).",
    ),
    "sqrt behind torch.where": (
        """
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        loss = torch.where(x > 0, x.sqrt(), torch.zeros_like(x)).sum()  # here
        """,
        "The gradient of x.sqrt() is NaN: sqrt has an infinite slope at 0.0, and times the incoming 0, that is NaN.",
        "Before the operation, make the input safe where the result is not used: torch.where(x > 0, x, 1.0).sqrt().",
    ),
    "sqrt of negative numbers behind torch.where": (
        """
        x = torch.tensor([4.0, -1.0], requires_grad=True)
        loss = torch.where(x > 0, x.sqrt(), torch.zeros_like(x)).sum()  # here
        """,
        "x.sqrt() is NaN where the loss does not use it, so the gradient is NaN: x is -1.0 there.",
        "Before the operation, make the input safe where the result is not used: torch.where(x > 0, x, 1.0).sqrt().",
    ),
    "log behind torch.where": (
        """
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        loss = torch.where(x == 0, 0.0, torch.log(x)).sum()  # here
        """,
        "The gradient of torch.log(x) is NaN: log has an infinite slope where x is 0.0, and times the incoming 0, "
        "that is NaN.",
        "Before the operation, make the input safe where the result is not used: torch.log(torch.where(x != 0, x,"
        " 1.0)).",
    ),
    "a quotient behind torch.where": (
        """
        total, count = torch.tensor([4.0, 1.0], requires_grad=True), torch.tensor([2.0, 0.0], requires_grad=True)
        loss = torch.where(count > 0, total / count, torch.zeros(2)).sum()  # here
        """,
        "The gradient of total / count is NaN: count is 0.0 there, where a quotient has an infinite slope, and "
        "times the incoming 0, that is NaN.",
        "Before the operation, make the input safe where the result is not used: total / torch.where(count > 0, "
        "count, 1.0).",
    ),
    "log times a mask": (
        """
        p, mask = torch.tensor([0.5, 0.0], requires_grad=True), torch.tensor([1.0, 0.0])
        logs = p.log()  # here
        loss = logs.masked_fill(mask == 0, 0.0).sum()
        """,
        "The gradient of p.log() is NaN: log has an infinite slope where p is 0.0, and times the incoming 0, that "
        "is NaN.",
        "Before the operation, make the input safe where the result is not used: torch.where(used, p, 1.0).log().",
    ),
    "a power below 1 at 0": (
        """
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        loss = (x ** 0.5).sum()  # here
        """,
        "The gradient of x ** 0.5 is infinite: a power below 1 has an infinite slope where x is 0.0.",
        "Keep the base above 0: x.clamp_min(1e-12) ** 0.5.",
    ),
    "acos at 1": (
        """
        cosine = torch.tensor([1.0, 0.5], requires_grad=True)
        loss = torch.acos(cosine).sum()  # here
        """,
        "The gradient of torch.acos(cosine) is infinite: acos has an infinite slope where cosine is 1.0.",
        "Keep its input inside the range: cosine.clamp(-1 + 1e-7, 1 - 1e-7); or use torch.atan2 of the sine and the "
        "cosine, which has no such edge.",
    ),
    "asin at -1": (
        """
        x = torch.tensor([-1.0, 0.5], requires_grad=True)
        loss = x.asin().sum()  # here
        """,
        "The gradient of x.asin() is infinite: asin has an infinite slope where x is -1.0.",
        "Keep its input inside the range: x.clamp(-1 + 1e-7, 1 - 1e-7); or use torch.atan2 of the sine and the cosine, "
        "which has no such edge.",
    ),
    "a masked row, mended by nan_to_num": (
        """
        scores = torch.randn(2, 3, requires_grad=True)
        masked = scores.masked_fill(torch.tensor([[True] * 3, [False] * 3]), float("-inf"))
        weights = masked.softmax(-1)  # here
        loss = weights.nan_to_num(0.0).square().sum()
        """,
        "masked.softmax(-1) is NaN where the loss does not use it, so the gradient is NaN: masked is -inf in a "
        "whole row, so nothing is left to choose from.",
        "Leave one position of each row unmasked. Or mask with torch.finfo(scores.dtype).min instead of -inf, and "
        "set fully masked rows to 0 afterwards.",
    ),
    "logsumexp of nothing": (
        """
        scores = torch.full((2, 3), float("-inf"), requires_grad=True)
        loss = torch.logsumexp(scores, -1).exp().sum()  # here
        """,
        "The gradient of torch.logsumexp(scores, -1) is NaN: scores is -inf in a whole row, so nothing is left to "
        "choose from.",
        "Leave one position of each row unmasked. Or mask with torch.finfo(scores.dtype).min instead of -inf, and "
        "set fully masked rows to 0 afterwards.",
    ),
    "equal eigenvalues": (
        """
        matrix = torch.eye(3, requires_grad=True)
        values, vectors = torch.linalg.eigh(matrix)  # here
        loss = vectors[0, 1]
        """,
        "The gradient of torch.linalg.eigh(matrix) is NaN: two of its values are equal, and the gradient of their "
        "vectors divides by the difference.",
        "If you only need the values, use torch.linalg.eigvalsh or svdvals, whose gradients are finite. Otherwise, "
        "make them differ by adding a small random diagonal.",
    ),
    "a gradient in float16": (
        """
        x = torch.full((4,), 0.001, dtype=torch.half, requires_grad=True)
        loss = (x * 200.0).sum() * 1000.0  # here
        """,
        "The gradient of x * 200.0 is infinite: the result is larger than 65,504, the largest float16.",
        "Use torch.amp.GradScaler, which skips such a step and lowers its scale. Or use bfloat16, which has the "
        "range of float32.",
    ),
}

HEALTHY = {
    "an ordinary loss": "loss = F.mse_loss(nn.Linear(4, 1)(torch.randn(8, 4)), torch.randn(8, 1))",
    "norm at 0": "loss = torch.zeros(3, requires_grad=True).norm()",
    "vector_norm at 0": "loss = torch.linalg.vector_norm(torch.zeros(3, requires_grad=True))",
    "std of equal values": "loss = torch.ones(3, 4, requires_grad=True).std(dim=1).sum()",
    "cosine similarity of a vector of length 0": """
        loss = F.cosine_similarity(torch.zeros(1, 3, requires_grad=True), torch.ones(1, 3)).sum()
        """,
    "atan2 at 0": """
        loss = torch.atan2(torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)).sum()
        """,
    "scores masked with -inf": """
        scores = torch.randn(2, 3, requires_grad=True)
        mask = torch.tensor([[True, False, False], [False, False, False]])
        loss = scores.masked_fill(mask, float("-inf")).softmax(-1).square().sum()
        """,
    "causal attention": """
        q = torch.randn(1, 2, 5, 4, requires_grad=True)
        loss = F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()
        """,
    "a mask of -inf that is added": """
        scores = torch.randn(3, 3, requires_grad=True)
        mask = torch.full((3, 3), float("-inf")).triu(1)
        loss = (scores + mask).softmax(-1).square().sum()
        """,
    "log of 0 that no gradient comes back to": """
        p = torch.tensor([0.5, 0.0])
        floor = torch.log(p).clamp_min(-10.0)
        loss = (torch.ones(2, requires_grad=True) * floor).sum()
        """,
    "log-softmax of far scores": """
        loss = -torch.log_softmax(torch.tensor([[200.0, -200.0]], requires_grad=True), 1)[0, 1]
        """,
    "a safe where": """
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        loss = torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0).sum()
        """,
    "xlogy at 0": "loss = torch.xlogy(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5], requires_grad=True)).sum()",
    "empty memory that is written later": """
        x = torch.empty(3)
        x.fill_(1.0)
        loss = (x * torch.ones(3, requires_grad=True)).sum()
        """,
    "a minimum found from infinity": """
        best = torch.tensor(float("inf"))
        for each in torch.randn(4, requires_grad=True):
            best = torch.minimum(best, each)
        loss = best
        """,
}

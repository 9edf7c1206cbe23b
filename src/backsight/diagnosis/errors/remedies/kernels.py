"""A remedy for attention that no kernel may compute: what the program allows, and why these refuse."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body
from backsight.source.bindings import spots
from backsight.source.body import callee, keyword
from backsight.source.edits import OR, on_line, unwrap
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of

_SPOKEN = {
    "FLASH_ATTENTION": "flash attention",
    "EFFICIENT_ATTENTION": "memory-efficient attention",
    "CUDNN_ATTENTION": "cuDNN attention",
    "MATH": "the math kernel",
}
_TAKE_ALL = ("EFFICIENT_ATTENTION", "MATH")
"""What is to be allowed besides: the fast kernel that takes a mask and float32, and the one that takes everything."""

_WIDEST = {"FLASH_ATTENTION": 256, "CUDNN_ATTENTION": 256}


@remedy(r"No available kernel|No viable backend for scaled_dot_product_attention")
def _no_kernel(found: Refusal, match: Match) -> Remedy | None:
    """Every kernel that `with sdpa_kernel(...)` allows refuses what it is given."""
    for body, statement, call in _blocks(found):
        given = call.args[0] if call.args else None
        every = given.elts if isinstance(given, ast.List | ast.Tuple) else [given] if given is not None else []
        allowed = [each.attr for each in every if isinstance(each, ast.Attribute) and each.attr in _SPOKEN]
        if given is None or not allowed or len(allowed) != len(every) or not isinstance(every[0], ast.Attribute):
            continue
        holder = body.text(every[0].value)
        more = [f"{holder}.{name}" for name in _TAKE_ALL if name not in allowed]
        written = ", ".join([*(body.text(each) for each in every), *more])
        line = rewritten(body, statement, {given: f"({written})" if isinstance(given, ast.Tuple) else f"[{written}]"})
        kernels = f"only {listed([_SPOKEN[each] for each in allowed])}"
        reasons = list(_reasons(found, allowed))
        at = body.place(statement)
        how = on_line(at, line) if line and more else f"on line {at.line}, allow more kernels"
        left = unwrap(at) if len(statement.items) == 1 else ""
        return Remedy(
            f"Allow more kernels: {how}. {OR}Or remove this `with`{left}: PyTorch then takes the "
            "fastest kernel that can."
            + ("" if reasons else " The warnings of PyTorch above the traceback say why each of them refuses."),
            (shown(body.place(statement), f"allows {kernels}."), *reasons),
            body.place(statement),
        )
    return None


def _blocks(found: Refusal) -> Iterator[tuple[Body, ast.With, ast.Call]]:
    """The `with sdpa_kernel(...)` around the lines of the traceback, the innermost first."""
    for level in found.failure.users:
        around = next((s.arms for s in spots(level.body.node) if s.node is level.statement), ()) if level.body else ()
        for arm, _ in reversed(around):
            for item in arm.items if isinstance(arm, ast.With) else ():
                call = item.context_expr
                if level.body is not None and isinstance(call, ast.Call) and callee(call)[1] == "sdpa_kernel":
                    yield level.body, arm, call  # type: ignore[misc]  # it is a With


def _reasons(found: Refusal, allowed: list[str]) -> Iterator[Fact]:
    """Why the kernels that are allowed refuse these operands, as far as that is known of all of them."""
    call = found.expression
    if not isinstance(call, ast.Call) or callee(call)[1] != "scaled_dot_product_attention" or not call.args:
        return
    query: Any = value_of(found.level, call.args[0])
    given = keyword(call, "attn_mask") or (call.args[3] if len(call.args) > 3 else None)
    mask, text = value_of(found.level, given), ast.unparse(given) if given is not None else ""
    for name in allowed:
        spoken = _SPOKEN[name][0].upper() + _SPOKEN[name][1:]
        if name == "FLASH_ATTENTION" and isinstance(mask, torch.Tensor):
            yield f"{spoken} takes no attn_mask, and {text} is one."
        elif name not in _WIDEST or not isinstance(query, torch.Tensor):
            continue
        elif query.dtype not in (torch.float16, torch.bfloat16):
            dtype = str(query.dtype).removeprefix("torch.")
            yield f"{spoken} takes float16 and bfloat16, and {ast.unparse(call.args[0])} is {dtype}."
        elif query.shape[-1] > _WIDEST[name]:
            yield f"{spoken} takes heads of at most {_WIDEST[name]} features, and here they have {query.shape[-1]}."

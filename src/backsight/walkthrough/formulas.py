"""PyTorch's own derivative formulas, read out of the installed wheel by the name of a node.

The wheel ships `torchgen/packaged/autograd/derivatives.yaml`, from which PyTorch generates the nodes. How a formula
becomes the name of a class is taken from `create_differentiability_info` in tools/autograd/load_derivatives.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_KEY = re.compile(r"^( +)([A-Za-z_][\w, ]*):(?:\s+(.*)|)$")
_OUTPUT = re.compile(r"(?:Tensor|Tensor\(\w!?\)) (\w+)")
_NO_DERIVATIVE = ("non_differentiable", "not_differentiable")

Fields = dict[str, str]


@dataclass(frozen=True)
class Formula:
    """How PyTorch differentiates one operation.

    ```python
    step.formula.signature      # 'mul.Tensor(Tensor self, Tensor other) -> Tensor'
    step.formula.of["self"]     # 'mul_tensor_backward(grad, other, self.scalar_type())'
    ```

    `of` has the gradient of each argument, or of several arguments that one call makes together (`"input, weight"`).
    """

    signature: str
    of: dict[str, str]

    @property
    def operator(self) -> tuple[str, str]:
        """The name and overload of the operation: `("mul", "Tensor")`."""
        name, _, overload = self.signature.partition("(")[0].partition(".")
        return name, overload or "default"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The differentiable arguments, in the order of the signature."""
        known = {name.strip() for key in self.of for name in key.split(",")}
        declared = re.findall(r"(\w+)(?:=[^,()]*)?(?=[,)])", self.signature.rpartition(") -> ")[0] + ")")
        return tuple(name for name in declared if name in known)

    def __str__(self) -> str:
        return "; ".join(f"{argument}: {text}" for argument, text in self.of.items())


def formula(node: str) -> Formula | None:
    """Return the formula of a node by its name, such as `MulBackward0`; None for one that has none.

    ```python
    str(formula("SinBackward0"))        # 'self: grad * self.cos().conj()'
    ```
    """
    return _formulas().get(node.removesuffix("_copy"))


@cache
def _formulas() -> dict[str, Formula]:
    """Return all formulas by node; none if this PyTorch came without the file."""
    found = find_spec("torchgen")
    file = Path(found.origin).parent / "packaged/autograd/derivatives.yaml" if found and found.origin else None
    if file is None or not file.is_file():
        return {}
    return dict(_named(file.read_text(encoding="utf-8")))


def _named(text: str) -> Iterator[tuple[str, Formula]]:
    """Yield the name of each generated class with its formula."""
    met: Counter[str] = Counter()
    for signature, variants in _entries(text):
        base = re.split(r"[.(]", signature)[0]
        words = "".join(word.title() for word in base.split("_"))
        returned = set(_OUTPUT.findall(signature.rpartition(") -> ")[2]))
        for key, fields in variants.items():
            plain = {name: _unquoted(text) for name, text in fields.items()}
            of = {name: text for name, text in plain.items() if _is_derivative(name, text, returned)}
            if of:
                prefix = f"{words}Backward".replace("ForwardBackward", "Backward") + key
                yield f"{prefix}{met[prefix]}", Formula(signature, of)
                met[prefix] += 1


def _is_derivative(name: str, text: str, returned: set[str]) -> bool:
    """Whether a field is the gradient of an argument, and not the tangent of a result or a remark."""
    names = {part.strip() for part in name.split(",")}
    if (
        name.startswith("output_differentiability")
        or names & returned
        or any(re.match(r"result\d*$", n) for n in names)
    ):
        return False
    return text not in _NO_DERIVATIVE and text != "auto_linear"


def _entries(text: str) -> Iterator[tuple[str, dict[str, Fields]]]:
    """Yield (signature, fields by dispatch key) of each entry; the key is "" for the usual one.

    This reads the little YAML that the file uses, so that no YAML library is needed.
    """
    signature, variants = "", dict[str, Fields]()
    key, name = "", ""
    for line in text.splitlines():
        if line.startswith("- name: "):
            if signature:
                yield signature, variants
            signature, variants, key, name = line[8:].split("  #")[0].strip(), {"": {}}, "", ""
        elif not signature or not line.strip() or line.lstrip().startswith("#"):
            continue
        elif (found := _KEY.match(line)) and len(found[1]) in (2, 4, 6) and _is_key(found, variants[key], name):
            if found[2] == "dispatch":
                name = ""
            elif len(found[1]) == 4 and not found[3]:
                key, name = found[2].removeprefix("Default"), ""
                variants.setdefault(key, {})
            else:
                name = found[2]
                variants[key][name] = found[3] or ""
        elif name:
            variants[key][name] = f"{variants[key][name]} {line.strip()}".strip()
    yield signature, variants


def _is_key(found: re.Match[str], fields: Fields, name: str) -> bool:
    """Whether a line begins a field: one that goes on from the line before is indented deeper than its name."""
    return len(found[1]) == 2 or not name or not fields or len(found[1]) == 6 or not found[3]


def _unquoted(text: str) -> str:
    """Return the text of a YAML scalar: without marks of folding, remarks and quotes."""
    text = re.sub(r"^[|>]-?(?= |$)", "", text).split(" # ")[0].strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text

"""torchviz's `make_dot`, for programs that were written for it, on graphs of any size and without Graphviz.

```python
from backsight.compat.torchviz import make_dot

dot = make_dot(loss, params=dict(model.named_parameters()))
dot                                     # shows itself in a notebook
dot.render("loss", format="svg")        # loss.svg, and the source text in the file `loss`
dot.source                              # 'digraph {\\n\\tgraph [size="12,12"]\\n\\tnode [align=left ...'
```

What differs from torchviz 0.0.3 on purpose:

- The picture is `backsight.graph(loss).draw()`: folded by module, drawn here. `.source` is torchviz's own, with every
  node, in its colours and with its labels; Graphviz, where it is installed, makes PDFs and the like of it.
- Leaves that `params` does not name are called by what the program calls them.
- There is no limit of depth. torchviz ends in a RecursionError below about 1000 nodes.
- Nothing is unpacked. torchviz runs the hooks of packed saved tensors, a whole forward pass under checkpointing, and
  raises on a graph that backward has freed; here such tensors are drawn and say "packed" or "freed".
- A tensor without a graph is refused with the reason. torchviz draws one box.
- Nodes are numbered, so that the source of equal graphs is equal. torchviz uses addresses.

Source: https://github.com/szagoruyko/pytorchviz
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from backsight.compat.viz_dot import Dot
from backsight.compat.viz_source import statements
from backsight.drawing import Drawing, Look
from backsight.snapshot import graph
from backsight.tape import Graph, no_torch_function, tensors_in

__all__ = ["Dot", "make_dot"]

_GRAPH = {"size": "12,12"}
_NODE = {
    "style": "filled",
    "shape": "box",
    "align": "left",
    "fontsize": "10",
    "ranksep": "0.1",
    "height": "0.2",
    "fontname": "monospace",
}
_INCHES_A_LINE, _LEAST_INCHES = 0.15, 12


def make_dot(
    var: Any,
    params: Mapping[str, torch.Tensor] | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
) -> Dot:
    """Return a picture of the graph behind `var`, as an object with `.render`, `.save` and `.source`.

    ```python
    make_dot(model(x).mean(), params=dict(model.named_parameters())).render("model", format="svg")
    ```

    Args:
        var: a tensor, or any nest of tuples, lists, dicts and dataclasses of them.
        params: names of leaves; others get the names of the variables that hold them.
        show_attrs: in the source, write what a node has saved below its name.
        show_saved: in the source, draw every saved tensor, not only those of custom Functions.
        max_attr_chars: how many characters of a saved value to show.

    Raises:
        NothingToCapture: if nothing in `var` has a graph.
        TypeError: if something in `params` is not a tensor.
    """
    given = _checked(params or {})
    attribute_room = max(max_attr_chars, 3) if show_attrs else 0
    with no_torch_function():
        tensors = [t for t in tensors_in(var) if issubclass(type(t), torch.Tensor)]
        named = _named(graph(var), given)
        body = statements(named, tensors, given, attribute_room, show_saved=show_saved)
    inches = str(max(_LEAST_INCHES, len(body) * _INCHES_A_LINE))
    return Dot(body, Drawing(named, Look()), {**_GRAPH, "size": f"{inches},{inches}"}, dict(_NODE))


def _checked(params: Mapping[str, torch.Tensor]) -> dict[int, str]:
    """Return the names in `params` by the identity of their tensors."""
    for name, tensor in params.items():
        if not issubclass(type(tensor), torch.Tensor):
            raise TypeError(f"params[{name!r}] is of type {type(tensor).__qualname__}, where a tensor belongs.")
    return {id(tensor): str(name) for name, tensor in params.items()}


def _named(captured: Graph, given: Mapping[int, str]) -> Graph:
    """Return `captured` with the names that were given in place of those found."""
    leaves = [
        replace(leaf, name=given[id(tensor)], names=tuple(dict.fromkeys((given[id(tensor)], *leaf.names))))
        if (tensor := leaf.tensor()) is not None and id(tensor) in given
        else leaf
        for leaf in captured.leaves
    ]
    return captured.renamed(leaves, captured.root_names)

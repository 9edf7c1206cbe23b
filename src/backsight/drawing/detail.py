"""What a box tells when asked: everything that is known of an operation, in a few lines."""

from __future__ import annotations

from backsight.drawing.scene import Box
from backsight.tape import Edge, Graph, Node, Saved
from backsight.tape.cells import harmless
from backsight.tape.rows import dimensions, dtype_name
from backsight.text import size

_MOST = 8


def told(graph: Graph, box: Box) -> str:
    """Return what is known of `box`: autograd's name, module, outputs, saved tensors and leaves, a line each.

    ```python
    told(graph, scene.boxes[0])     # "AddmmBackward0, node 12\\ntransformer.h.0.attn.c_attn\\n..."
    ```
    """
    path = ".".join(filter(None, (harmless(graph.model), box.path)))
    about = f"{path}: {box.cls}" if box.cls else path
    lines = _group(box, about) if box.is_group else _operation(graph.nodes[box.node], about)
    if box.times > 1:
        lines.append(f"{box.times:,} equal copies, drawn once")
    names = [name for chip in box.chips for name in chip.names]
    if names:
        rest = sum(chip.count for chip in box.chips) - len(names[:_MOST])
        more = f" and {rest:,} more" if rest else ""
        lines.append(f"leaves: {', '.join(names[:_MOST])}{more}")
    return "\n".join(line for line in lines if line)


def _group(box: Box, about: str) -> list[str]:
    inside = f"{box.count:,} operation{'s' * (box.count != 1)}"
    return [about or box.name, inside + (f", {size(box.saved)} saved for backward" if box.saved else "")]


def _operation(node: Node, about: str) -> list[str]:
    lines = [f"{harmless(node.name)}, node {node.index}", about]
    taken = [_input(edge) for edge in node.inputs if edge is not None]
    lines.append(f"takes {', '.join(filter(None, taken[:_MOST]))}" if any(taken) else "")
    outputs = [f"{dimensions(o.shape)} {dtype_name(o.dtype)} {o.device}" for o in node.outputs if o is not None]
    lines.append(f"makes {', '.join(outputs[:_MOST])}" if outputs else "")
    lines += [f"saves {_saved(saved)}" for saved in node.saved[:_MOST]]
    lines.append(f"from {harmless(node.source)}" if node.source else "")
    return lines


def _input(edge: Edge) -> str:
    """Return the shape of what an operation was given; of a leaf with its name."""
    if edge.node.leaf is not None:
        return f"{harmless(edge.node.leaf.label)} {dimensions(edge.node.leaf.shape)}"
    made = edge.node.outputs[edge.output] if edge.output < len(edge.node.outputs) else None
    return dimensions(made.shape) if made is not None else ""


def _saved(saved: Saved) -> str:
    shape = f" {dimensions(saved.shape)}" if saved.shape is not None else ""
    dtype = f" {dtype_name(saved.dtype)}" if saved.dtype is not None else ""
    state = "" if saved.state == "alive" else f", {saved.state}"
    if saved.state == "modified":
        state += f": version {saved.version}, expected {saved.expected}"
    return f"{harmless(saved.name)}{shape}{dtype}{f', {size(saved.bytes)}' if saved.bytes else ''}{state}"

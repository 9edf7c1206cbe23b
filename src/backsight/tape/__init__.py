"""What autograd recorded, as plain data."""

from backsight.tape._torch import next_sequence_number
from backsight.tape.capture import capture, tensors_in
from backsight.tape.errors import NothingToCapture
from backsight.tape.graph import Edge, Graph, Node, NodeType
from backsight.tape.modules import CallLog, Models, announce, with_models
from backsight.tape.queries import NotInGraph
from backsight.tape.tensors import Leaf, Output, Saved

__all__ = [
    "CallLog",
    "Edge",
    "Graph",
    "Leaf",
    "Models",
    "Node",
    "NodeType",
    "NotInGraph",
    "NothingToCapture",
    "Output",
    "Saved",
    "announce",
    "capture",
    "next_sequence_number",
    "tensors_in",
    "with_models",
]

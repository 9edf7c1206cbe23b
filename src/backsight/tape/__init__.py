"""What autograd recorded, as plain data."""

from backsight.tape.capture import capture
from backsight.tape.errors import NothingToCapture
from backsight.tape.graph import Edge, Graph, Leaf, Node, NodeType, Output, Saved
from backsight.tape.modules import CallLog, announce
from backsight.tape.queries import NotInGraph

__all__ = [
    "CallLog",
    "Edge",
    "Graph",
    "Leaf",
    "Node",
    "NodeType",
    "NotInGraph",
    "NothingToCapture",
    "Output",
    "Saved",
    "announce",
    "capture",
]

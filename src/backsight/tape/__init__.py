"""What autograd recorded, as plain data.

Offered to other rooms: `calling`, `caption`, `capture`, `cells`, `errors`, `fold`, `modules`, `ops`, `queries`,
`reading`, `rows`, `saved`, `walk`.
"""

from backsight.tape._torch import (
    CHECKED,
    ENGINE_CALLS,
    NO_SEQUENCE,
    RAW,
    EngineCall,
    backward_number,
    can_read,
    forward_class,
    grad_fn,
    identity,
    in_backward,
    input_metadata,
    is_jit_traced,
    is_leaf,
    is_mended,
    keeps_metadata,
    load_forward_mode,
    looks_into,
    made_by,
    next_sequence_number,
    no_jit_trace,
    no_torch_dispatch,
    no_torch_function,
    raw_of_custom,
    registered,
    sequence_number,
    storage_key,
    unseen,
    version,
)
from backsight.tape.alive import alive
from backsight.tape.calls import CallLog, announce
from backsight.tape.capture import capture, tensors_in
from backsight.tape.cuda_graphs import is_captured, is_warming_up
from backsight.tape.document import document, graph_of
from backsight.tape.errors import NothingToCapture
from backsight.tape.graph import Cut, Graph
from backsight.tape.lines import announce_lines
from backsight.tape.living import Living
from backsight.tape.modules import Models, buffers_in, modules_in, parameters_in, with_models
from backsight.tape.node import Edge, Node, NodeType
from backsight.tape.own_hooks import Hushed, uncompiled, unnumbered
from backsight.tape.queries import NotInGraph
from backsight.tape.reading import BadDocument
from backsight.tape.running import running_backward
from backsight.tape.tensors import Leaf, Output, Saved
from backsight.tape.walk import TooManyNodes

__all__ = [
    "CHECKED",
    "ENGINE_CALLS",
    "NO_SEQUENCE",
    "RAW",
    "BadDocument",
    "CallLog",
    "Cut",
    "Edge",
    "EngineCall",
    "Graph",
    "Hushed",
    "Leaf",
    "Living",
    "Models",
    "Node",
    "NodeType",
    "NotInGraph",
    "NothingToCapture",
    "Output",
    "Saved",
    "TooManyNodes",
    "alive",
    "announce",
    "announce_lines",
    "backward_number",
    "buffers_in",
    "can_read",
    "capture",
    "document",
    "forward_class",
    "grad_fn",
    "graph_of",
    "identity",
    "in_backward",
    "input_metadata",
    "is_captured",
    "is_jit_traced",
    "is_leaf",
    "is_mended",
    "is_warming_up",
    "keeps_metadata",
    "load_forward_mode",
    "looks_into",
    "made_by",
    "modules_in",
    "next_sequence_number",
    "no_jit_trace",
    "no_torch_dispatch",
    "no_torch_function",
    "parameters_in",
    "raw_of_custom",
    "registered",
    "running_backward",
    "sequence_number",
    "storage_key",
    "tensors_in",
    "uncompiled",
    "unnumbered",
    "unseen",
    "version",
    "with_models",
]

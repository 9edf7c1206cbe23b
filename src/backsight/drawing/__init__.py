"""Pictures of a graph: folded by module and by repetition, laid out here, in every format that people ask for.

Offered to other rooms: `look`.
"""

from backsight.drawing.drawing import Drawing, draw
from backsight.drawing.exports import NoRasterizer, networkx_graph
from backsight.drawing.look import Heat, Look, Pin
from backsight.drawing.places import nodes_by_box
from backsight.drawing.scene import Box, Chip, Scene
from backsight.drawing.staging import staged
from backsight.drawing.svg import svg

__all__ = [
    "Box",
    "Chip",
    "Drawing",
    "Heat",
    "Look",
    "NoRasterizer",
    "Pin",
    "Scene",
    "draw",
    "networkx_graph",
    "nodes_by_box",
    "staged",
    "svg",
]

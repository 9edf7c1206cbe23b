"""The picture and the graph in other people's formats."""

from backsight.drawing.exports.dot import dot
from backsight.drawing.exports.graphml import graphml
from backsight.drawing.exports.mermaid import mermaid
from backsight.drawing.exports.model_explorer import model_explorer
from backsight.drawing.exports.network import networkx_graph
from backsight.drawing.exports.plain import json_text
from backsight.drawing.exports.png import NoRasterizer, png

__all__ = ["NoRasterizer", "dot", "graphml", "json_text", "mermaid", "model_explorer", "networkx_graph", "png"]

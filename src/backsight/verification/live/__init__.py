"""`verify_graph`: the nodes of a live graph, tested where they stand."""

from backsight.verification.live.verify_graph import verify_graph

__all__ = ["verify_graph"]

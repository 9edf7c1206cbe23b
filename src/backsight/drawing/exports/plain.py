"""The folded picture as JSON, to be stored, compared or drawn by other programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from backsight.drawing.scene import Box, Scene

VERSION = 1

_NUMBERS = ("index", "parent", "node")
"""Of which 0 is one like any other."""


def json_text(scene: Scene) -> str:
    """Return `scene` as JSON: `boxes` in forward order, closed groups with all that is in them, and `links`.

    ```python
    json.loads(json_text(scene))["boxes"][0]["op"]      # "Embedding"
    ```

    Fields of a box that are empty or zero are left out, but for its numbers: `index`, `parent` and `node`.
    """
    plain = {
        "format": "backsight.scene",
        "version": VERSION,
        "title": scene.title,
        "summary": scene.summary,
        "boxes": [_box(box) for box in scene.boxes],
        "links": scene.links,
        "remarks": [asdict(remark) for remark in scene.remarks],
    }
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _box(box: Box) -> dict[str, Any]:
    return {key: value for key, value in asdict(box).items() if value or key in _NUMBERS}

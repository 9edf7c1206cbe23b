"""`backsight run --leaks`: looks at the live graphs after some optimizer steps."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from backsight.diagnosis import Finding
from backsight.diagnosis.live import Leaks
from backsight.launch.voice import failed
from backsight.naming.roots import ours
from backsight.tape import uncompiled, unnumbered


class LeakWatch:
    """Knows which variables hold more graphs from step to step; a failure of its own ends it and not the training."""

    def __init__(self) -> None:
        self._leaks = Leaks()
        self._failed = False
        with unnumbered():
            self._handle = register_optimizer_step_post_hook(self._stepped)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was still growing when it was looked at last."""
        return () if self._failed else self._leaks.findings

    def stop(self) -> None:
        """Remove the hook."""
        self._handle.remove()

    @uncompiled
    def _stepped(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        # The hook stays until the end: an optimizer iterates over the live dict of its hooks while it calls this one.
        if torch.compiler.is_compiling() or self._failed:
            return
        try:
            self._leaks.stepped(optimizer)
        except BaseException as failure:
            self._failed = True
            failed("no longer looking at live graphs", ours(failure))

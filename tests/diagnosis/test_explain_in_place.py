"""BS202, BS205 and BS209: what was modified in place, by which statement, and what to write instead."""

from __future__ import annotations

import threading

from failures import at, failing

import backsight as bs


class TestWhereLittleIsLeft:
    CODE = """
        def main():
            x = torch.randn(3, requires_grad=True)
            y = x.sigmoid()
            y[0] = 1
            y.sum().backward()
        main()
        """

    def test_without_source_the_variable_is_named_still(self):
        finding = bs.explain(failing(self.CODE, readable=False))
        assert finding.title == "y was modified in place after sigmoid had saved it for backward."
        assert (
            "Where it was saved and modified is no longer known: `backsight run` would have seen it."
            in finding.evidence
        )
        assert not finding.exact

    def test_without_traceback_the_message_is_read(self):
        error = failing(self.CODE).with_traceback(None)
        finding = bs.explain(error)
        assert finding.code == "BS202"
        assert finding.title == (
            "A tensor of shape 3 that backward needs was modified in place after the forward pass saved it."
        )
        assert "It was saved at version 0 and is at version 1 now." in finding.evidence
        assert "sigmoid created it, or modified it last." in finding.evidence

    def test_in_a_thread_that_has_ended(self):
        caught = []
        thread = threading.Thread(target=lambda: caught.append(failing(self.CODE)))
        thread.start()
        thread.join()
        assert bs.explain(caught[0]).source == at(self.CODE, "y[0] = 1")

"""BS202: several saved tensors of one graph were changed, and what the function of a line calls each of them."""

import pytest
import torch
from columns import needs_columns
from failures import at, evidence, explained, watched

RECALL = """
class Recall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ask, self.note = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def reset(self):
        self.marks, self.notes = torch.zeros(6, 4), torch.zeros(6, 4)
    def look(self, x, i):
        self.marks[i] = self.ask(x)
        self.notes[i] = self.note(x)
        score = torch.mv(self.marks[:i + 1], self.ask(x))
        return torch.mv(self.notes[:i + 1].t(), score)
class Reader:
    def __init__(self):
        self.memory = Recall()
    def loss(self, words):
        self.memory.reset()
        return sum(self.memory.look(x, i).square().mean() for i, x in enumerate(words))
reader = Reader()
loss = reader.loss(torch.randn(5, 4))
loss.backward()
"""

HANDED = """
def put(board, i, row):
    board[i] = row
class Game:
    def __init__(self):
        self.weight = torch.ones(3, requires_grad=True)
        self.rows = torch.zeros(4, 3)
    def play(self, put):
        total = 0.0
        for i in range(3):
            put(self.rows, i, self.weight * 2)
            total = total + (self.rows * self.weight).sum()
        return total
"""


class TestSeveralTensors:
    def test_all_are_named_with_their_lines(self):
        finding = watched(RECALL)
        assert finding.title == (
            "reader.memory.notes and reader.memory.marks were modified in place after a matrix product had saved them "
            "for backward."
        )
        assert finding.source == at(RECALL, "self.notes[i] =")
        marks, saver = at(RECALL, "self.marks[i] ="), at(RECALL, "score =").partition(":")[2]
        assert f"{marks}  self.marks[i] = self.ask(x)\n    also modifies self.marks in place, after line {saver}" in (
            evidence(finding)
        )
        assert finding.exact

    @needs_columns
    def test_the_fix_copies_each_where_it_is_saved_and_runs(self):
        notes, marks = (at(RECALL, text).partition(":")[2] for text in ("return torch.mv", "score ="))
        finding = watched(RECALL)
        assert finding.fix == (
            f"Compute with a copy: write `return torch.mv(self.notes[:i + 1].t().clone(), score)` on line {notes} and "
            f"`score = torch.mv(self.marks[:i + 1].clone(), self.ask(x))` on line {marks}."
        )
        fixed = RECALL.replace("self.notes[:i + 1]", "self.notes[:i + 1].clone()")
        exec(fixed.replace("self.marks[:i + 1]", "self.marks[:i + 1].clone()"), {"torch": torch, "__name__": "fixed"})

    @pytest.mark.parametrize("explaining", [explained, watched])
    def test_two_variables_of_one_function(self, explaining):
        source = """
            x = torch.randn(3, requires_grad=True)
            near, far = x * 2, x * 3
            out = (near ** 2).sum() + (far ** 2).sum()
            near[0] = 0
            far[1] = 1
            out.backward()
            """
        finding = explaining(source)
        assert finding.title == "far and near were modified in place after a power had saved them for backward."
        assert finding.fix == (
            "Modify a copy: put far = far.clone() before line 5 and near = near.clone() before line 4."
        )
        assert finding.exact


class TestHowItIsSpelled:
    def test_as_in_the_function_of_the_line_and_not_as_its_caller_does(self):
        finding = explained(RECALL)
        assert "reader.memory" not in finding.fix
        assert "self.notes = self.notes.clone()" in finding.fix

    def test_a_part_of_a_tensor_is_no_variable(self):
        source = """
            def compute(x):
                grid = x * 2
                out = (grid ** 2).sum()
                grid[0][1] = 7
                return out
            compute(torch.randn(2, 3, requires_grad=True)).backward()
            """
        assert watched(source).fix == "Modify a copy: put grid = grid.clone() before line 4."

    def test_what_a_function_was_given_is_not_copied_there_where_its_caller_needs_the_change(self):
        source = f"{HANDED}loss = Game().play(put)\nloss.backward()\n"
        finding = watched(source)
        line = at(source, "board[i] = row").partition(":")[2]
        assert "board.clone()" not in finding.fix
        assert finding.fix == (
            f"Compute with a copy of it, created with .clone(), wherever line {line} modifies it later."
        )

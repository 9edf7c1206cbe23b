# code: BS202
# variable: reader.memory.notes
# cause: self.notes[i] = self.note(x)
# fix: self.marks
import torch


class Recall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ask, self.note = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def reset(self):
        self.marks, self.notes = torch.zeros(6, 4), torch.zeros(6, 4)

    def look(self, x, i):
        self.marks[i] = self.ask(x)
        self.notes[i] = self.note(x)
        score = torch.mv(self.marks[: i + 1], self.ask(x))
        return torch.mv(self.notes[: i + 1].t(), score)


class Reader:
    def __init__(self):
        self.memory = Recall()

    def loss(self, words):
        self.memory.reset()
        return sum(self.memory.look(x, i).square().mean() for i, x in enumerate(words))


reader = Reader()
loss = reader.loss(torch.randn(5, 4))
loss.backward()

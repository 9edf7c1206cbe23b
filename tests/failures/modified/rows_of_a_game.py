# code: BS202
# variable: board
# cause: board[i] = row
# fix: created with .clone()
import torch


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


loss = Game().play(put)
loss.backward()

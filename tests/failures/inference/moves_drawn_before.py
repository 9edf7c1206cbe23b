# code: BS214
# variable: moves
# cause: with torch.inference_mode():
# fix: Use torch.no_grad() instead of torch.inference_mode() on line 28
import torch
from torch import nn

torch.manual_seed(0)


class Player(nn.Module):
    def __init__(self, moves):
        super().__init__()
        self.board = nn.Linear(6, 16)
        self.move = nn.Embedding(moves, 16)

    def forward(self, board):
        return self.board(board) @ self.move.weight.t()

    def value_of(self, board, moves):
        return (self.board(board) * self.move(moves)).sum(-1)


player = Player(5)
optimizer = torch.optim.Adam(player.parameters(), lr=0.01)
for game in range(3):
    boards = torch.rand(8, 6)
    with torch.inference_mode():
        chances = player(boards).softmax(-1)
        moves = torch.multinomial(chances, 1).squeeze(1)
        won = (moves == 2).float()
    for again in range(2):
        loss = (player.value_of(boards, moves) - won).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(game, loss.item())

"""Draw the pictures that the pages show.

python docs/pictures.py             # rewrites docs/pictures/*.svg
python docs/pictures.py --check     # only says which are out of date
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType
from rich.text import Text
from torch import nn
from torch.nn import functional as F

import backsight as bs
from backsight.drawing import Drawing, Pin
from backsight.traces.terminal import in_color

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from _graphs import UNet

FOLDER = Path(__file__).parent / "pictures"


def formula() -> Drawing:
    """The first example of PyTorch's own tutorial."""
    x1, x2 = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    w = torch.log(x1 * x2) * torch.sin(x2)
    return bs.graph(w).draw()


def gpt2() -> Drawing:
    """GPT-2 as published, with an optimizer that was not given the embedding of positions."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    model, tokens = GPT2LMHeadModel(GPT2Config()), torch.randint(50257, (1, 32))
    trained = [p for name, p in model.named_parameters() if not name.endswith("wpe.weight")]
    optimizer = torch.optim.AdamW(trained)
    loss = model(tokens, labels=tokens, use_cache=False).loss
    return bs.graph(loss, model=model, optimizer=optimizer).draw(title="GPT-2")


def sampler() -> Drawing:
    """A diffusion model's sampler, unrolled: 50 calls of one network."""
    net, x = UNet(), torch.randn(1, 3, 16, 16)
    with bs.watch():
        for time in torch.randn(50, 1, 16):
            noise = net(x, time)
            x = 0.9 * (x - 0.1 * noise) + 0.1 * noise
        image = x.mean()
        return bs.graph(image, model={"net": net, "other": nn.Identity()}).draw()


def perturbed() -> tuple[bs.Graph, bs.Graph]:
    """Return the graphs of two losses of one network, of which the first has a perturbation of the input as a leaf."""
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    delta, x = torch.zeros(16, 8, requires_grad=True), torch.randn(16, 8)
    features = net(x + delta)
    loss = F.cross_entropy(features, torch.arange(16) % 4)
    smooth = features.var(0).sum()
    return bs.graph(loss, model=net, optimizer=optimizer), bs.graph(smooth, model=net, optimizer=optimizer)


def path() -> Drawing:
    """How a leaf reaches the loss, with a remark on it."""
    graph, _ = perturbed()
    return graph.draw(path=("delta", "loss"), pins=[Pin("delta", "the perturbation: how strongly does it act?")])


def audit() -> Drawing:
    """What an audit found: a head that no optimizer has, and features that were changed in place."""
    body, head = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    features = body(torch.randn(2, 8)).sigmoid()
    loss = head(features).square().mean()
    features.add_(1)
    return bs.audit(loss, model={"body": body, "head": head}, optimizer=optimizer).draw()


def shared() -> Drawing:
    """What two losses both go back through: the second backward through it fails."""
    graph, other = perturbed()
    return other.draw(shared=graph)


def digits() -> Drawing:
    """The script of the tutorial, with a temperature that no optimizer has."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10))
    temperature = torch.ones((), requires_grad=True)
    optimizer = torch.optim.Adam(model.parameters())
    loss = F.cross_entropy(model(x[:64]) / temperature, y[:64])
    return bs.graph(loss, model=model, optimizer=optimizer).draw()


def freed() -> Drawing:
    """The formula after its backward: what the operations saved is gone."""
    x1, x2 = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    w = torch.log(x1 * x2) * torch.sin(x2)
    w.backward()
    return bs.graph(w).draw()


def carried() -> Drawing:
    """Three steps of a recurrent cell that hands its state on with its history."""
    weight, hidden = torch.eye(4, requires_grad=True), torch.zeros(1, 4)
    for _ in range(3):
        hidden = torch.tanh(hidden @ weight + 1)
    loss = hidden.sum()
    return bs.graph(loss).draw(fold=False)


def cut() -> Drawing:
    """Two towers, of which `detach()` keeps one out of the graph."""
    image, text = nn.Linear(8, 4), nn.Linear(6, 4)
    likeness = (image(torch.randn(2, 8)) * text(torch.randn(2, 6)).detach()).sum()
    return bs.graph(likeness, model={"image": image, "text": text}).draw()


def second() -> Drawing:
    """The graph of a derivative: of x * sin(x), under create_graph=True."""
    x = torch.tensor(2.0, requires_grad=True)
    y = x * torch.sin(x)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return bs.graph(slope).draw()


_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""They would be fetched."""


def explained() -> str:
    """What a terminal shows below the traceback of a script that has died under `backsight run`."""
    script = FOLDER.parents[1] / "examples" / "broken" / "01_second_backward_rnn.py"
    terminal = {"COLUMNS": "92", "FORCE_COLOR": "1", "NO_COLOR": "", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    env = {**os.environ, **terminal}
    command = [sys.executable, "-m", "backsight", "run", "--quiet", script.name]
    done = subprocess.run(command, cwd=script.parent, env=env, capture_output=True, text=True, encoding="utf-8")
    raised = next(line for line in done.stderr.splitlines() if line.startswith("RuntimeError: "))
    panel = done.stderr[done.stderr.index("\x1b[36m╭") :]
    shown = (Text(f"{raised[:88]} …", style="bold"), Text.from_ansi(panel.rstrip()))
    return _terminal(*shown, title=f"backsight run {script.name}", name="explained")


_ATTENTION = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = {scores}
        return x + self.out(scores.softmax(-1) @ v)


torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.LayerNorm(32), Attention()) for _ in range(4)), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(4, 16, 32, generator=torch.Generator().manual_seed(1))
for _ in range(2):
    optimizer.zero_grad()
    (model(x) - x[..., :1]).square().mean().backward()
    optimizer.step()
"""


def diverged() -> str:
    """What `backsight diff` shows of two programs, of which the second has lost the scale of its attention."""
    programs = {"old": "q @ k.transpose(1, 2) / 32**0.5", "new": "torch.einsum('bqc,bkc->bqk', q, k)"}
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, scores in programs.items():
            Path(folder, f"{name}.py").write_text(_ATTENTION.format(scores=scores))
            command = ["run", "--quiet", "--trace", "steps=0", "--into", name, f"{name}.py"]
            subprocess.run([sys.executable, "-m", "backsight", *command], cwd=folder, check=True)
        os.chdir(folder)
        try:
            parts = [*in_color(bs.diff("old", "new"))]
            return _terminal(*parts, title="backsight diff old new", name="diverged")
        finally:
            os.chdir(here)


def _terminal(*parts: RenderableType, title: str, name: str) -> str:
    """Return what a terminal shows as a picture."""
    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    for part in parts:
        console.print(part, highlight=False)
    look = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
        "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
    )
    picture = console.export_svg(title=title, code_format=look, unique_id=name)
    return re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE)


PICTURES: tuple[Callable[[], Drawing | str], ...] = (
    explained,  # README.md
    diverged,  # docs/diff.md
    *(formula, gpt2, sampler, path, audit, shared),  # docs/drawing.md
    *(digits, freed, carried, cut, second),  # docs/tutorial.md, docs/graph.md
)


def drawn(picture: Callable[[], Drawing | str]) -> str:
    """Return a picture as the page shows it."""
    torch.manual_seed(0)
    made = picture()
    return made if isinstance(made, str) else made.svg()


def main() -> int:
    check = "--check" in sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    stale = False
    for picture in PICTURES:
        file, text = FOLDER / f"{picture.__name__}.svg", drawn(picture)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale = True
            print(f"{'out of date' if check else 'drawn'}: {file.name}")
            if not check:
                file.write_text(text, encoding="utf-8")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())

"""Take the pictures of the viewer that README.md and docs/viewer.md show.

python docs/screenshots.py             # rewrites docs/pictures/viewer-*.png; needs Chromium and transformers

A small GPT-2 learns a sentence by heart, and a network of digits meets a NaN: both are recorded, and looked at in
Chromium as anybody would. Fonts differ from machine to machine, so no test compares the pictures.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from torch import nn

import backsight as bs
from backsight.viewer import Library, Server

LARGEST = 120_000  # bytes
FOLDER = Path(__file__).resolve().parent / "pictures"
WINDOW = {"width": 1120, "height": 700}
TALL = {"width": 1120, "height": 920}
PHONE = {"width": 390, "height": 700}

WEIGHT = {"tensor": "transformer.h.3.mlp.c_fc.weight", "kind": "grad"}

SHOTS = {
    "runs": ("", {}, {}),
    "metrics": ("gpt2-tiny/metrics", {}, {}),
    "heatmap": ("gpt2-tiny/heatmap", {"kind": "grad"}, {}),
    "tensor": ("gpt2-tiny/tensor", {**WEIGHT, "ridges": 1}, {"viewport": TALL}),
    "graph": ("gpt2-tiny/graph", {"kind": "grad", "step": 200}, {}),
    "findings": ("digits-nan/findings", {}, {}),
    "memory": ("gpt2-tiny/memory", {}, {}),
    "compare": ("digits/compare", {"with": "digits-slow,digits-nan"}, {}),
    "dark": ("gpt2-tiny/heatmap", {"kind": "output"}, {"color_scheme": "dark"}),
    "narrow": ("gpt2-tiny/heatmap", {"kind": "grad"}, {"viewport": PHONE}),
}
"""Each picture: the view, what the address says of it, and how the browser is set."""


def gpt2(folder: Path, steps: int = 300) -> None:
    """Record a small GPT-2 that learns a sentence, with a warm-up."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_head=4, n_embd=64, vocab_size=256, n_positions=64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.tensor(list(b"the quick brown fox jumps over the lazy dog. " * 20))
    with bs.record(model, optimizer, folder) as rec:
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 1e-3 * min(1.0, step / 30)
            batch = torch.stack([text[k : k + 32] for k in torch.randint(len(text) - 32, (8,))])
            with bs.measure_memory(model, optimizer) if step == 3 else nullcontext() as measured:
                optimizer.zero_grad()
                loss = model(batch, labels=batch, use_cache=False).loss
                loss.backward()
                optimizer.step()
            rec.mark(loss=loss.item())
            if measured is not None:
                rec.memory(measured)


def digits(folder: Path, steps: int, nan_at: int | None = None, lr: float = 0.1) -> None:
    """Record a network that learns digits; at one step its loss is NaN."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with bs.record(model, optimizer, folder) as rec:
        for step in range(steps):
            batch = torch.randint(len(x), (32,))
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch]) * (math.nan if step == nan_at else 1)
            rec.mark(loss=loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def taken(page: Page, address: str, file: Path) -> None:
    page.goto(address)
    page.locator(".page").wait_for()
    page.locator(".busy").first.wait_for(state="detached")
    page.get_by_title("not searched yet").first.wait_for(state="detached")
    page.wait_for_timeout(300)  # two frames more than a chart needs
    page.screenshot(path=file)
    if file.stat().st_size > LARGEST:
        Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


def main() -> None:
    with tempfile.TemporaryDirectory() as held, sync_playwright() as play:
        os.chdir(held)  # the page shows the folder as it was given
        runs = Path("runs")
        gpt2(runs / "gpt2-tiny")
        digits(runs / "digits", 120)
        digits(runs / "digits-slow", 120, lr=0.03)
        digits(runs / "digits-nan", 120, nan_at=80)
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with Server(Library(runs)) as server:
            for name, (view, said, options) in SHOTS.items():
                page = browser.new_page(**{"viewport": WINDOW, **options})
                page.goto(server.url)
                address = f"http://127.0.0.1:{server.port}/#/{view}{'?' if said else ''}{urlencode(said)}"
                taken(page, address, FOLDER / f"viewer-{name}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()

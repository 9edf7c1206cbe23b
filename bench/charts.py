"""The page's own charts beside those of BokehJS, on the same numbers: size, time to the first paint, security policy.

    pip install bokeh
    python bench/charts.py                # 12 charts of 3 lines of 600 points, each page opened 5 times in Chromium

Both pages are one file that fetches nothing, opened from the disk. BokehJS is inlined from the package, without widgets
and tables. Each page is opened once more under the policy that reports have, which lets run our script alone and its
style alone; for BokehJS its own script and style are allowed by their hashes, and what is refused then is counted.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _measure import WIDTH
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from backsight.viewer.packing import packed
from backsight.viewer.page import report

CHARTS, LINES, POINTS = 12, 3, 600

PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"

READY = {
    "ours": "() => document.querySelectorAll('.panel canvas').length",
    "bokeh": "() => (window.Bokeh?.documents[0]?.is_idle ? 12 : 0)",
}


def numbers() -> list[list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(0)
    return [[np.exp(np.cumsum(rng.normal(size=POINTS)) / 20) for _ in range(LINES)] for _ in range(CHARTS)]


def ours(held: list[list[np.ndarray[Any, Any]]]) -> str:
    """Return a report that holds these numbers and nothing else."""
    steps = list(range(POINTS))
    lines = {
        f"metric {k}.{n}": {"steps": steps, "values": packed(values, "f4"), "last": float(values[-1]), "unit": ""}
        for k, several in enumerate(held)
        for n, values in enumerate(several)
        if n == 0
    }
    clock = {"steps": steps, "seconds": packed(np.arange(POINTS) * 0.1, "f8")}
    metrics = {"lines": lines, "constants": {}, "losses": [], "words": {}, "clock": clock, "epoch": None}
    about = {
        "name": "run",
        "created": 0,
        "state": "finished",
        "bytes": 0,
        "damage": "none",
        "world": 1,
        "ranks": [0],
        "steps": {"count": POINTS, "first": 0, "last": POINTS - 1},
        "kinds": [],
        "stats": [],
        "metrics": [],
        "modules": [],
        "config": {},
        "environment": {},
        "events": [],
    }
    return report("run", {"name": "run", "answers": {"about?": about, "metrics?columns=300": metrics}})


def bokeh(held: list[list[np.ndarray[Any, Any]]]) -> str:
    """Return a page of BokehJS with zoom by dragging, a hover tool, a shared range and a legend to click."""
    from bokeh.embed import file_html
    from bokeh.layouts import gridplot
    from bokeh.models import Range1d
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    shared, figures = Range1d(0, POINTS - 1), []
    for k, several in enumerate(held):
        plot = figure(
            title=f"metric {k}",
            width=430,
            height=220,
            x_range=shared,
            tools="xbox_zoom,reset,save,hover",
            toolbar_location="right",
        )
        plot.line(np.arange(POINTS), several[0], legend_label="run")
        plot.legend.click_policy = "hide"
        figures.append(plot)
    return file_html(gridplot(figures, ncols=3, merge_tools=False), INLINE, "run")


def with_policy(html: str) -> str:
    """Return a page under the policy of a report: its own scripts and styles by their hashes."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for tag, found in hashes.items():
        for text in re.findall(rf"<{tag}(?![^>]*application/json)[^>]*>(.*?)</{tag}>", html, re.DOTALL):
            found.append(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'")
    scripts, styles = (" ".join(hashes[tag]) or "'none'" for tag in ("script", "style"))
    policy = f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:"
    return html.replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{policy}">', 1)


def opened(browser: Any, path: Path, kind: str, rounds: int) -> tuple[list[float], int]:
    """Return milliseconds to the paint of all charts, and how often the policy refused something."""
    found, refused = [], 0
    for _ in range(rounds):
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        complaints: list[str] = []
        page.on("console", lambda said, to=complaints: to.append(said.text))
        page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        page.goto(f"{path.as_uri()}{'#/run/metrics' if kind == 'ours' else ''}")
        try:
            page.wait_for_function(f"({READY[kind]})() >= {CHARTS}", polling="raf", timeout=20_000)
            found.append(page.evaluate(PAINTED))
        except Exception:
            found.append(float("nan"))
        refused = sum("Content Security Policy" in each or "Content-Security-Policy" in each for each in complaints)
        page.context.close()
    return found, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    from playwright.sync_api import sync_playwright

    held, folder = numbers(), Path(tempfile.mkdtemp(prefix="backsight-charts-"))
    table = Table("page", "size, kB", "all charts painted, ms", "refused by the policy", box=SIMPLE_HEAD)
    with sync_playwright() as play:
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for kind, html in (("ours", ours(held)), ("bokeh", bokeh(held))):
            plain, strict = folder / f"{kind}.html", folder / f"{kind}-strict.html"
            plain.write_text(html, encoding="utf-8")
            strict.write_text(html if kind == "ours" else with_policy(html), encoding="utf-8")
            times, _ = opened(browser, plain, kind, rounds)
            _, refused = opened(browser, strict, kind, 1)
            table.add_row(kind, f"{len(html.encode()) / 1e3:,.0f}", f"{statistics.median(times):,.0f}", str(refused))
        browser.close()
    shutil.rmtree(folder)
    Console(width=WIDTH).print(table)


if __name__ == "__main__":
    main()

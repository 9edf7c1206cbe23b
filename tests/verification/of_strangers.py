"""Functions that strangers wrote, before they had seen what backsight knows: the wrong ones (w), and right ones (r).

python tests/verification/of_strangers.py            how many are found and explained, and which right one is accused
python tests/verification/of_strangers.py --accept   write into told.json what is said of each, to be held by the tests
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

import backsight as bs

HERE = Path(__file__).with_name("strangers")
TOLD = HERE / "told.json"


def files() -> list[Path]:
    return sorted(HERE.glob("*/[wr][0-9][0-9]_*.py"))


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


def told(file: Path) -> list[str]:
    """The codes of what is said of a function, each once; `ok` if it is called right."""
    module = _imported(file)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        report = bs.verify(module.f, *module.inputs(), progress=False)
    return [*dict.fromkeys(each.code for each in report.findings)] or ["ok"]


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Functions look up the source of their class
    spec.loader.exec_module(module)
    return module


def table(of: dict[str, list[str]]) -> Iterator[str]:
    yield f"{'set':<10}{'wrong':>7}{'found':>7}{'explained':>11}{'right':>7}{'accused':>9}"
    for kind in dict.fromkeys(name.partition("/")[0] for name in of):
        own = {name.partition("/")[2]: codes for name, codes in of.items() if name.startswith(f"{kind}/")}
        wrong = [codes for name, codes in own.items() if name.startswith("w")]
        right = [codes for name, codes in own.items() if name.startswith("r")]
        found = [codes for codes in wrong if codes != ["ok"]]
        explained = [codes for codes in found if codes != ["BS400"]]
        accused = [codes for codes in right if codes != ["ok"]]
        yield f"{kind:<10}{len(wrong):>7}{len(found):>7}{len(explained):>11}{len(right):>7}{len(accused):>9}"


def main(arguments: list[str]) -> None:
    found = {name_of(file): told(file) for file in files()}
    print("\n".join(table(found)))
    if "--accept" in arguments:
        TOLD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

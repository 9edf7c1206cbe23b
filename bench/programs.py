"""Trainings through libraries that others wrote, as their users write them: bare, under `backsight run`, and recorded.

    python bench/programs.py                          # all of them; an hour, and 4 GB for their environment
    python bench/programs.py --programs sb3_ppo trl_dpo
    python bench/programs.py --jobs 4                 # that many at once
    python bench/programs.py --keep build/seen        # goes on where it was broken off
    python bench/programs.py --times --rounds 5       # also the ratio of the times, on an idle machine

Each is a script in `bench/programs` that ends by printing the digest of all its weights. What it prints, its warnings,
its exit status and the weights have to be those of `python`, and nothing graver than a note may be said of it or of its
recording: all of them are healthy. `!` marks what is not so.

Their packages come from the package index, into an environment of their own, `build/programs` or `--environment`, by
pip or by what PIP names, such as PIP="uv pip". Both read their own variables for where to look. Where no torchvision
fits the PyTorch that is installed (none does a CPU build), packages that ask for one, without need, are installed
without what they ask for. What cannot be installed is skipped, and says so. Nothing else is downloaded.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import report, simple_table, verdict

HERE = Path(__file__).parent
SCRIPTS = HERE / "programs"
ROOT = HERE.parent

HUGGING_FACE = ("transformers", "accelerate")
TRL = ("trl", "datasets", *HUGGING_FACE)

PACKAGES: dict[str, tuple[str, ...]] = {
    "accelerate_loop": ("accelerate",),
    "botorch_loop": ("botorch",),
    "captum_attributions": ("captum",),
    "cleanrl_dqn": ("gymnasium",),
    "cleanrl_ppo": ("gymnasium",),
    "ctgan_table": ("ctgan",),
    "ctgan_tvae": ("ctgan",),
    "diffusers_ddpm": ("diffusers",),
    "e3nn_tetris": ("e3nn",),
    "egnn_molecules": ("egnn-pytorch",),
    "ema_rotary": ("ema-pytorch", "rotary-embedding-torch", "einops"),
    "entmax_attention": ("entmax",),
    "fastai_learner": ("fastai",),
    "geoopt_hyperbolic": ("geoopt",),
    "gpytorch_exact": ("gpytorch",),
    "gpytorch_variational": ("gpytorch",),
    "higher_maml": ("higher",),
    "ignite_engine": ("pytorch-ignite",),
    "kornia_augmented": ("kornia",),
    "lightning_automatic": ("lightning",),
    "lightning_fabric": ("lightning",),
    "lightning_gan": ("lightning",),
    "metric_learning_triplet": ("pytorch-metric-learning",),
    "monai_unet": ("monai",),
    "nflows_maf": ("nflows",),
    "normflows_realnvp": ("normflows",),
    "opacus_dp": ("opacus",),
    "peft_ia3": ("peft", *HUGGING_FACE),
    "peft_lora": ("peft", *HUGGING_FACE),
    "perceiver_classifier": ("perceiver-pytorch", "lion-pytorch"),
    "pycox_coxph": ("pycox", "torchtuples"),
    "pyg_gat": ("torch-geometric",),
    "pyg_gcn": ("torch-geometric",),
    "pyg_link": ("torch-geometric",),
    "pykeen_transe": ("pykeen",),
    "pyro_nuts": ("pyro-ppl",),
    "pyro_svi": ("pyro-ppl",),
    "pyro_vae": ("pyro-ppl",),
    "pytorch_forecasting_tft": ("pytorch-forecasting", "lightning"),
    "pytorch_optimizer_sam": ("pytorch-optimizer",),
    "sb3_dqn": ("stable-baselines3",),
    "sb3_ppo": ("stable-baselines3",),
    "sb3_sac": ("stable-baselines3",),
    "sb3_td3": ("stable-baselines3",),
    "schedulefree_adamw": ("schedulefree",),
    "sentence_transformers_mnrl": ("sentence-transformers", "datasets", *HUGGING_FACE),
    "skorch_classifier": ("skorch",),
    "snntorch_spikes": ("snntorch",),
    "tabnet_classifier": ("pytorch-tabnet",),
    "torchcde_classifier": ("torchcde",),
    "torchdiffeq_adjoint": ("torchdiffeq",),
    "torchdiffeq_odeint": ("torchdiffeq",),
    "torchmetrics_loop": ("torchmetrics",),
    "torchopt_maml": ("torchopt",),
    "torchrl_ppo": ("torchrl", "gymnasium"),
    "torchsde_latent": ("torchsde",),
    "transformers_bert": HUGGING_FACE,
    "transformers_gpt2": HUGGING_FACE,
    "transformers_mixtral": HUGGING_FACE,
    "transformers_t5": HUGGING_FACE,
    "trl_dpo": TRL,
    "trl_grpo": TRL,
    "trl_reward": TRL,
    "trl_sft": TRL,
    "vq_autoencoder": ("vector-quantize-pytorch",),
    "x_transformers_lm": ("x-transformers",),
    "zuko_nsf": ("zuko",),
}
"""What each script in `bench/programs` needs, the library that it is about first."""

ALONE: dict[str, tuple[str, ...]] = {
    "fastai": (
        *("fastcore", "fastdownload", "fastprogress", "fasttransform", "plum-dispatch<2.10"),
        *("pandas", "matplotlib", "scikit-learn", "scipy", "pillow", "pyyaml", "requests", "cloudpickle"),
    ),
}
"""Packages that ask for torchvision or torchaudio and work without: what they need instead."""

OFFLINE = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

WAYS: dict[str, tuple[str, ...]] = {
    "python": (),
    "run": ("-m", "backsight", "run", "--json-to", "said.jsonl"),
    "record": ("-m", "backsight", "run", "--json-to", "said.jsonl", "--record", "--run", "recorded"),
}

AUDIT = ("-m", "backsight", "runs", "audit", "--json", "recorded")
"""What is said of a recording afterwards, as lines on stdout."""

WARNED = re.compile(r"^.*(?<!Syntax)Warning: .*$", re.MULTILINE)
"""Lines of warnings; those about syntax only come where a module is compiled for the first time."""

TIMES = re.compile(r"(?<=time|cond)['\"]?: ['\"]?[\d.e+-]+")
"""What a program prints of times, as in `'train_runtime': '0.31'` and `'train_steps_per_second': 64.2`."""

USUAL = re.compile(r"nothing found|\brecorded\b.*: backsight runs show ")
UNSEEN = {"not audited": "no loss was audited", "not recorded": "nothing recorded: "}
"""What `backsight run` says of itself when all is well; other messages are of what has failed in it."""

SECONDS = 600
"""After which a program is given up."""


@dataclass(frozen=True)
class Ran:
    """What was seen of a program that ran once."""

    status: int
    printed: str
    weights: str
    warnings: tuple[str, ...]
    complained: str
    said: tuple[Mapping[str, Any], ...]
    seconds: float

    def differences(self, other: Ran) -> list[str]:
        """Name what differs from another way to run the same program."""
        pairs = {
            "exit status": (self.status, other.status),
            "output": (self.printed, other.printed),
            "weights": (self.weights, other.weights),
            "warnings": (self.warnings, other.warnings),
        }
        return [what for what, (ours, theirs) in pairs.items() if ours != theirs]


def ran(python: Path, name: str, way: str) -> Ran:
    """Run a script in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        try:
            done = subprocess.run(
                [python, *WAYS[way], SCRIPTS / f"{name}.py"], cwd=folder, env={**os.environ, **OFFLINE},
                timeout=SECONDS, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Ran(-1, "", "", (), f"gave up after {SECONDS} s", (), SECONDS)
        seconds = time.perf_counter() - began
        file = Path(folder, "said.jsonl")
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        if Path(folder, "recorded").is_dir():
            audit = subprocess.run([python, *AUDIT], cwd=folder, capture_output=True, text=True, check=False)
            failed = audit.stderr if audit.returncode else ""
            lines += audit.stdout.splitlines() + [json.dumps({"kind": "message", "text": failed})] * bool(failed)
        said = [json.loads(line) for line in lines]
    *printed, weights = done.stdout.splitlines() or [""]
    warned = tuple(sorted({line.replace(folder, ".") for line in WARNED.findall(done.stderr)}))
    return Ran(
        done.returncode, TIMES.sub(": #", "\n".join(printed)), weights, warned, done.stderr, tuple(said), seconds
    )


def compared(python: Path, name: str, rounds: int) -> dict[str, list[Ran]]:
    """Run a script in each way in turn, so many times; again as it is where it does not do the same twice."""
    seen: dict[str, list[Ran]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, runs in seen.items():
            runs.append(ran(python, name, way))
    if any(seen["python"][0].differences(one) for runs in seen.values() for one in runs):
        seen["python"].append(ran(python, name, "python"))
    return seen


def told(seen: Mapping[str, list[Ran]]) -> list[tuple[str, str, str]]:
    """Return code, severity and title of all that was said of a program; of what it says of itself too."""
    said = [one for way in ("run", "record") for one in seen[way][0].said]
    findings = [(one["code"], one["severity"], one["title"]) for one in said if "code" in one]
    for one in said:
        if one["kind"] == "message" and not USUAL.search(one["text"]):
            unseen = next((what for what, text in UNSEEN.items() if text in one["text"]), None)
            findings.append((unseen, "note", one["text"]) if unseen else ("message", "warning", one["text"]))
    return list(dict.fromkeys(findings))


def verdict_on(seen: Mapping[str, list[Ran]]) -> str:
    """Say whether a program ran as `python` runs it, and if not, what differs."""
    bare, *again = seen["python"]
    if bare.status:
        return f"! fails without us: {(bare.complained.splitlines() or ['no word'])[-1]}"
    moody = [what for other in again for what in bare.differences(other)]
    if moody:
        return f"! differs from itself: {', '.join(dict.fromkeys(moody))}"
    found = {way: [what for one in seen[way] for what in bare.differences(one)] for way in ("run", "record")}
    differs = [f"{', '.join(dict.fromkeys(whats))} under {way}" for way, whats in found.items() if whats]
    return f"! {'; '.join(differs)}" if differs else "yes"


def purpose(name: str) -> str:
    """Return what a script trains, the first line of its docstring."""
    text = ast.get_docstring(ast.parse((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].rstrip(".")


def environment(folder: Path, names: Iterable[str]) -> Path:
    """Make the environment that these programs need, and return its Python; what is there already is kept."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = shlex.split(os.environ.get("PIP", ""))
    if not python.exists():
        venv.create(folder, with_pip=not pip, symlinks=os.name != "nt")
    installer = pip or [str(python), "-m", "pip", "--disable-pip-version-check"]
    torch = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    held = folder / "constraints.txt"
    held.write_text("\n".join(torch) + "\n", encoding="utf-8")

    def install(*words: str) -> str:
        command = [*installer, "install", "--quiet", "--constraint", str(held), *words]
        done = subprocess.run(
            command, env={**os.environ, "VIRTUAL_ENV": str(folder)}, capture_output=True, text=True, check=False
        )
        return (done.stderr.strip().splitlines() or ["no word"])[-1] if done.returncode else ""

    there = installed(python)
    needed = dict.fromkeys(p for name in names for p in PACKAGES[name] if _bare(p) not in there)
    alone = [package for package in needed if package in ALONE]
    usual = [p for package in needed for p in ALONE.get(package, (package,))]
    failed = "" if "backsight" in there else install("--editable", str(ROOT), "numpy")
    if failed:
        raise SystemExit(f"backsight cannot be installed into {folder}: {failed}")
    if usual and install(*usual):  # together if they agree with each other, else as many as can be had
        for package in usual:
            if failed := install(package):
                print(f"{package} cannot be installed: {failed}", file=sys.stderr)
    for package in alone:
        if failed := install("--no-deps", package):
            print(f"{package} cannot be installed: {failed}", file=sys.stderr)
    return python


def installed(python: Path) -> dict[str, str]:
    """Return the versions of the packages of an environment."""
    ask = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}))"
    )
    return dict(json.loads(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout))


def main() -> None:
    """Run the programs, and print what was seen of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--programs", nargs="*", choices=PACKAGES, default=list(PACKAGES), metavar="NAME")
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "programs", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1, help="how many programs at once")
    parser.add_argument("--times", action="store_true", help="compare times as well, imports included")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is run in each way")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all that was seen there; what is, is not run")
    options = parser.parse_args()
    if options.times and options.jobs > 1:
        parser.error("times want --jobs 1: programs beside each other slow each other down")
    python = environment(options.environment.absolute(), options.programs)
    versions = installed(python)
    there = {name: all(_bare(p) in versions for p in PACKAGES[name]) for name in options.programs}
    names = [name for name in options.programs if there[name]]
    with ThreadPoolExecutor(options.jobs) as pool:
        seen = dict(zip(names, pool.map(lambda name: _shown(python, name, options), names), strict=True))
    _report(seen, versions, [name for name in options.programs if not there[name]], options.times)


def _bare(package: str) -> str:
    return package.partition("[")[0].lower().replace("_", "-")


def _shown(python: Path, name: str, options: argparse.Namespace) -> dict[str, list[Ran]]:
    """Run a program, or read what was seen of it before, and say in a line what that is."""
    kept = options.keep / f"{name}.json" if options.keep else None
    if kept is not None and kept.exists():
        read = json.loads(kept.read_text(encoding="utf-8"))
        seen = {
            way: [Ran(**{**one, "warnings": tuple(one["warnings"]), "said": tuple(one["said"])}) for one in runs]
            for way, runs in read.items()
        }
    else:
        seen = compared(python, name, options.rounds)
    if kept is not None and not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(seen, default=vars, indent=1), encoding="utf-8")
    said = "; ".join(f"{code} {severity}: {title}" for code, severity, title in told(seen))
    print(f"{name}: {verdict_on(seen)}; {said or 'nothing'}", file=sys.stderr, flush=True)
    return seen


def _report(
    seen: Mapping[str, Mapping[str, list[Ran]]], versions: Mapping[str, str], skipped: list[str], times: bool
) -> None:
    ratios = ("run", "record") if times else ()
    table = simple_table("program", *ratios, title="Trainings through other libraries")
    for heading in ("library", "what it trains", "identical", "said"):
        table.add_column(heading)
    alarms, different = [], []
    for name, runs in seen.items():
        library = _bare(PACKAGES[name][0])
        said = told(runs)
        alarms += [f"{name}: {code} {title}" for code, severity, title in said if severity != "note"]
        outcome = verdict_on(runs)
        different += [name] if outcome != "yes" else []
        median = {way: statistics.median(one.seconds for one in some) for way, some in runs.items()}
        cells = [f"{median[way] / median['python']:.2f}" for way in ratios]
        words = [code if severity == "note" else f"! {code} {severity}" for code, severity, _ in said]
        what = ", ".join(dict.fromkeys(words)) or "nothing"
        table.add_row(name, *cells, f"{library} {versions[library]}", purpose(name), outcome, what)
    libraries = {PACKAGES[name][0] for name in seen}
    report(
        table,
        verdict(not different, f"{len(seen) - len(different)} of {len(seen)} identical, of {len(libraries)} libraries"),
        verdict(not alarms, f"{len(alarms)} false alarms, no error and no warning being promised"),
        *alarms,
        *(f"skipped: {name}, without {', '.join(PACKAGES[name])}" for name in skipped),
    )


if __name__ == "__main__":
    main()

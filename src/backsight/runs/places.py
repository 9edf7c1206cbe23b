"""Where the files of a run lie, and how the folder of a rank comes into being whole.

    RUN/rank-00000/manifest.json   format, configuration, environment
                   tensors.jsonl   which number is which tensor
                   metrics.jsonl   which number is which metric of the user's
                   marks.jsonl     tags of steps
                   numbers.jsonl   which number is which loss, learning rate, ...
                   scalars.jsonl   values of these; earlier recordings
                   events.jsonl    what else happened
                   tree.json       the modules
                   graph.json      the autograd graph of a step
                   memory.json     the memory of a step
                   000000-000015.sorted   segments 0 to 15, sorted by tensor
                   000016.live            the segment that is being written
    RUN/.job                      whose ranks may write here
        trace/                    the operations of some steps, if the program is traced as well

No name of the user's is ever part of a path.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from backsight.runs import files, lines
from backsight.runs.errors import DamagedRun, NotARun, RunExists, RunNotWritable

FORMAT = "backsight-run"
VERSION = 1

MANIFEST = "manifest.json"
TENSORS = "tensors.jsonl"
METRICS = "metrics.jsonl"
MARKS = "marks.jsonl"
NUMBERS = "numbers.jsonl"
SCALARS = "scalars.jsonl"
EVENTS = "events.jsonl"
TREE = "tree.json"
GRAPH = "graph.json"
MEMORY = "memory.json"
CLAIM = ".job"
TRACE = "trace"

_RANK = re.compile(r"rank-(\d{5,18})", re.ASCII)
_SEGMENT = re.compile(r"(\d{6,18})(?:-(\d{6,18})\.sorted|\.live)", re.ASCII)


def rank_folder(run: Path, rank: int) -> Path:
    """Return the folder of a rank."""
    return run / f"rank-{rank:05d}"


def ranks_in(run: Path) -> dict[int, Path]:
    """Return the folders of the ranks that have begun, in order."""
    return {number: run / name for number, name in rank_names(run).items()}


def rank_names(run: Path) -> dict[int, str]:
    """Return the names of these folders, which is all that a run of very many ranks is asked for again and again."""
    with os.scandir(run) as entries:
        found = [(match, entry) for entry in entries if (match := _RANK.fullmatch(entry.name)) and entry.is_dir()]
    return dict(sorted((int(match[1]), entry.name) for match, entry in found))


@dataclass(frozen=True)
class SegmentName:
    """The name of a segment, and the numbers of those whose rows it holds."""

    text: str
    first: int
    last: int

    @property
    def suffix(self) -> str:
        return self.text[self.text.rindex(".") :]


def sorted_name(first: int, last: int) -> str:
    """Return the name of a sorted segment."""
    return f"{first:06d}-{last:06d}.sorted"


def segments_in(folder: Path) -> list[SegmentName]:
    """Return the segments of a rank in order, without those whose rows a sorted or wider one holds as well."""
    with os.scandir(folder) as entries:
        found = [_segment_name(match) for entry in entries if (match := _SEGMENT.fullmatch(entry.name))]
    found.sort(key=lambda name: (name.first, -name.last, name.suffix == ".live"))
    out: list[SegmentName] = []
    for name in found:
        if not out or name.last > out[-1].last:
            out.append(name)
    return out


def _segment_name(match: re.Match[str]) -> SegmentName:
    first = int(match[1])
    return SegmentName(match[0], first, first if match[2] is None else int(match[2]))


def begin(run: Path, rank: int, manifest: dict[str, object]) -> Path:
    """Make the folder of a rank with its manifest, both at once, and return it.

    Raises:
        RunExists: if this rank has written here before, or another run has.
        NotARun: if the folder holds something else.
        RunNotWritable: if the folder cannot be made.
    """
    folder = rank_folder(run, rank)
    try:
        run.mkdir(parents=True, exist_ok=True)
        _refuse_others(run, rank, manifest)
        _claim(run, rank, manifest)
        unfinished = run / f"starting-{rank:05d}-{secrets.token_hex(8)}"  # threads and machines may share a number
        unfinished.mkdir()
        try:
            (unfinished / MANIFEST).write_bytes(lines.sealed(manifest))
            os.rename(unfinished, folder)  # fails if the folder is there, for it is not empty
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except FileExistsError as error:
        raise _exists(run) if os.path.isdir(run) else _unwritable(run, error) from None
    except OSError as error:
        raise _exists(run) if os.path.exists(folder) else _unwritable(run, error) from error
    return folder


def _refuse_others(run: Path, rank: int, manifest: dict[str, object]) -> None:
    ranks = ranks_in(run)
    if rank in ranks:
        raise _exists(run)
    for other, folder in ranks.items():
        try:
            held = lines.opened(files.content(folder / MANIFEST))
        except (OSError, DamagedRun, lines.BadLine):
            raise _exists(run) from None
        if held.get("world") != manifest["world"]:
            raise _exists(run)
        if held.get("job") != manifest["job"]:
            raise _others(run, f"Rank {other} of another job", held, rank, manifest)
    own = ("rank-", "starting-", TRACE, ".")
    foreign = [entry.name for entry in os.scandir(run) if not entry.name.startswith(own)]
    if foreign and not ranks:
        raise NotARun(
            f"{run} contains other files ({min(foreign)!r}), so no run is written into it. Use a separate folder for "
            "the run."
        )


def _claim(run: Path, rank: int, manifest: dict[str, object]) -> None:
    """Make the folder this job's: of two jobs that begin at once, one gets it for all of its ranks.

    A hard link appears with its content, and only once, on a file system of the network as well.
    """
    claim, unfinished = run / CLAIM, run / f"starting-job-{rank:05d}-{secrets.token_hex(8)}"
    try:
        unfinished.write_bytes(lines.sealed({"job": manifest["job"]}))
        os.link(unfinished, claim)
    except FileExistsError:
        pass
    except (OSError, AttributeError):  # no hard links here: a start at the very same time is not noticed
        return
    finally:
        unfinished.unlink(missing_ok=True)
    try:
        held = lines.opened(files.content(claim))
    except (OSError, DamagedRun, lines.BadLine):
        raise _exists(run) from None
    if held.get("job") != manifest["job"]:
        raise _others(run, "Another job", held, rank, manifest)


def _others(run: Path, who: str, held: dict[str, object], rank: int, manifest: dict[str, object]) -> RunExists:
    return RunExists(
        f"{who} ({held.get('job') or 'unnamed'}) wrote into {run}, but this is rank {rank} of "
        f"{manifest['job'] or 'an unnamed job'}. Choose another name, or remove the folder."
    )


def _exists(run: Path) -> RunExists:
    return RunExists(
        f"There is already a run in {run}, and backsight never overwrites a run. Choose another name, or remove the "
        "folder."
    )


def _unwritable(run: Path, error: OSError) -> RunNotWritable:
    return RunNotWritable(
        f"{run} cannot be written to: {error.strerror or error}. Choose a writable folder on a disk with free space."
    )

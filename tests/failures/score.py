"""Print the share of the failing scripts whose cause is found, by class, after the fact and under an exact watch.

Last comes what was found of programs by others at first contact: the rules were written with these scripts, and say
little of those. All rounds of these stand in rounds.csv.

python tests/failures/score.py            the table
python tests/failures/score.py -v NAME    what is said of the scripts whose name contains NAME
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from running import Told, told
from scripts import Script, scripts

from backsight import Finding

ROUNDS = Path(__file__).with_name("rounds.csv")


def table(results: list[tuple[Script, Told, Told]]) -> str:
    kinds = list(dict.fromkeys(script.kind for script, _, _ in results))
    rows = [f"{'class':<18}{'scripts':>8}{'after the fact':>16}{'under watch':>13}"]
    for kind in [*kinds, "all"]:
        of_kind = [row for row in results if kind in (row[0].kind, "all")]
        after = sum(not row[1].missing for row in of_kind)
        exact = sum(not row[2].missing for row in of_kind)
        rows.append(f"{kind:<18}{len(of_kind):>8}{after / len(of_kind):>15.0%} {exact / len(of_kind):>12.0%}")
    return "\n".join(rows)


def concrete(findings: list[Finding]) -> str:
    """Return how many fixes are data, too: what to write, move or remove, and where; the others are words alone."""
    count = sum(bool(each.edits) for each in findings)
    return f"edits: {count} of {len(findings)} fixes say what to write, and where ({count / max(len(findings), 1):.0%})"


def first_contact(rounds: Iterable[Mapping[str, str]]) -> str:
    """Say what came of the newest round of errors."""
    newest = [each for each in rounds if each["what"].startswith("errors")][-1]
    share = int(newest["complete"]) / int(newest["programs"])
    return (
        f"first contact, {newest['what']} ({newest['date']}): {newest['complete']} of {newest['programs']} complete "
        f"({share:.0%}), {newest['partial']} in part, {newest['nothing']} not, {newest['wrong']} wrong"
    )


def rounds() -> list[dict[str, str]]:
    """Return what came of each round of programs by people who did not know the rules, first to last."""
    with ROUNDS.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main(arguments: list[str]) -> None:
    verbose, wanted = "-v" in arguments, [each for each in arguments if each != "-v"]
    results = []
    for script in scripts():
        if wanted and not any(each in script.name for each in wanted):
            continue
        after, exact = told(script, watched=False), told(script, watched=True)
        if not after.failed and "mended" in script.head:
            print(f"{script.name}: {script.head['mended']}")
            continue
        results.append((script, after, exact))
        for how, one in zip(("after the fact", "under watch"), results[-1][1:], strict=True):
            if one.missing or verbose:
                print(f"{script.name}, {how}: {'; '.join(one.missing) or 'found'}")
            if verbose:
                print(f"{one.finding}\n")
    print(table(results))
    print(concrete([one.finding for result in results for one in result[1:] if one.finding is not None]))
    print(first_contact(rounds()))


if __name__ == "__main__":
    main(sys.argv[1:])

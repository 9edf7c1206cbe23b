"""The command line: `backsight run`, `backsight demo`."""

import argparse
import sys

from backsight._version import __version__

_RUN = """\
Run an unmodified training script as python would, and watch it: the first steps are audited, and an autograd error is
explained with the variable, the line and the cure. Exit status, stdout, signals and arguments stay the script's own."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; `arguments` are those after the program's name. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="backsight", description="An autograd debugger and observatory for PyTorch.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"backsight {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run", help="run a script and explain what goes wrong", description=_RUN, allow_abbrev=False
    )
    run.usage = "backsight run [-h] [--quiet] [--notes] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    run.add_argument("--quiet", "-q", action="store_true", help="say nothing when nothing is found")
    run.add_argument("--notes", action="store_true", help="also show what is usually meant, such as frozen parameters")
    run.add_argument("-m", dest="module", action="store_true", help="run a module, as python -m does")
    run.add_argument("program", nargs=argparse.REMAINDER, help="the script or module, and its arguments")
    commands.add_parser("demo", help="see in a minute what backsight is for")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if options.command == "demo":
        from backsight.demo import show

        return show()
    if not options.program:
        run.error("nothing to run: give a script, as in `backsight run train.py`, or -m and a module")
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    from backsight.launch import run_module, run_script
    from backsight.launch.training import TrainingObserver

    run = run_module if options.module else run_script
    script, *rest = options.program
    return run(script, rest, TrainingObserver(quiet=options.quiet, notes=options.notes))

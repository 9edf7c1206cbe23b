"""The command line: `backsight run`, `backsight runs`, `backsight forecast`, `backsight verify`, `backsight demo`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from backsight import option_values as values
from backsight._version import __version__
from backsight.command_words import Parser, to_command, to_option
from backsight.text.meant import beside

if TYPE_CHECKING:
    from backsight.launch.recording import RecordingObserver

_RUN = """\
Run a training script as `python` would and watch it: backsight audits the first steps, and explains an autograd error
with the variable, the line and the fix. --record also records statistics of every tensor of its models. Exit status,
stdout, signals and arguments are those of the script."""

_FIX = """\
Run a script as `backsight run` does, and try the fixes of what is found: the script runs again with each change, your
files stay as they are, and the change after which it runs is printed as a diff, ready for `git apply` or --write. What
the script writes it writes in each run. Exit status: 0 if a change mends it, or there is nothing to fix; else 1."""

_RUNS = """\
List the recordings in a folder and its subfolders. `backsight runs show` shows the latest step of a recording, or
several side by side; `backsight runs audit` finds problems in them; `backsight runs export` writes one to a file for
other programs."""

_SHOW = """\
Show one step of a recording by module: statistics of each tensor, a sparkline of the last steps, and any problems. With
several recordings: their numbers side by side, and the settings that differ. (Their curves: backsight view. The
operation where two programs diverge: backsight diff.) Name a run by its folder; a run in ./runs by its name, by the
start of its name if no other run matches, or by its script, whose newest run it then is. The default is the newest
run in ./runs."""

_TOP = """\
Show a recording in the terminal while it is written: losses and other numbers, gradients by depth, findings. Ctrl-C
stops it. If the output is not a terminal, it is printed once."""

_AUDIT = """\
Find problems in recorded trainings: NaN, vanishing gradients, dead units, weights that never move, and more. Exit
status: 1 if an error was found, 0 if there are only warnings and notes, 2 if there is no such recording."""

_EXPORT = "Write all rows of a recording to one file for other programs."

_VIEW = """\
Show recordings in a browser, also while they are written: the model over time, every tensor, findings, and several runs
overlaid. (The operation where two programs diverge: backsight diff.) Only for this machine: the address contains a
token and works until this command stops."""

_FORECAST = """\
Predict how much memory a training step needs at its peak, where the peak is, and what gradient release or
checkpointing would save. Tensors have shapes but no memory, so no device must hold the model. FUNCTION does a training
step, or returns (model, batch) or (model, batch, optimizer). The file is imported, which runs it: put a training under
`if __name__ == "__main__":`. Exit status: 1 if the step does not fit into --memory, 2 if there is none or it raises."""

_DOCTOR = """\
Report what backsight finds: Python, PyTorch, devices, its C kernel, and each optional package with its version or the
command that installs it. Exit status: 1 if an installed package cannot be imported."""

_VERIFY = """\
Test whether the gradients of a function, a module or a torch.autograd.Function are correct, and say which one is wrong
and how. Given only a file or module, test every torch.autograd.Function in it. The file is imported, which runs it: put
a training under `if __name__ == "__main__":`. Inputs are random with the shapes from --shape. Without it, a function
verify_inputs() in the same file returns them, as a tuple or by the name of what takes them: {"RowNorm": (torch.randn(4,
6), 1e-8)}. Without that, backsight makes them up; where the file calls the function with a number, it passes that one.
A function without parameters can return what to test and its inputs: (function, x, ...). Exit status: 1 if a gradient
is wrong, 2 if a user-defined operation could not be tested, or nothing was."""

_DIFF = """\
Find where two trainings diverge: the first operation, forward or backward, whose inputs agree and whose result does
not, its line in both programs, and whether they differ by rounding, by precision, or compute different things. A and B
are two scripts, or commands to run: backsight diff -- "python train.py --lr 1" "python new.py". Both run to the end.
Or A and B are traces: folders in which `backsight run --trace` wrote each operation of some steps. Exit status: 0 if
they differ at most by rounding, 1 if by more, 2 if they cannot be compared. To overlay recordings: backsight view."""

_DEMO = """\
See what backsight does, in a minute: a healthy training, an explained error, a script that learns nothing, and a
recording of the first one. The scripts come with backsight; nothing is downloaded."""

_EXPLAIN = """\
Print the page of a code, or of the code that an error message belongs to: what is wrong, what PyTorch says, and the
corrected program. Paste a message in quotes, name a file with a traceback, or pipe one in, as in `python train.py 2>&1
| backsight explain`. The source files that a traceback names are read, and not run. To have an error of your own script
explained with its variables and lines: backsight run train.py. Exit status: 2 if there is no such page."""

_EXAMPLES = """\
examples:
  backsight run train.py            explain its errors, audit its first steps
  backsight fix train.py            try the fixes, show the one that works
  backsight run --record train.py   also record every tensor of its models
  backsight view                    show the recordings in a browser
  backsight diff OLD NEW            find the operation where programs diverge
  backsight verify layers.py        test every torch.autograd.Function in a file
  backsight explain BS201           what a code means, with a corrected program

`backsight COMMAND --help` lists the options of a command.
"""


def command_line() -> Parser:
    """Return the parser of the command line, with all commands and their options."""
    parser = Parser(
        prog="backsight",
        description="An autograd debugger and observatory for PyTorch.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"backsight {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parser.commands = commands.choices
    _add_run(commands)
    _add_fix(commands)
    _add_runs(commands)
    _add_forecast(commands)
    _add_verify(commands)
    _add_view(commands)
    _add_diff(commands)
    top = commands.add_parser("top", help="show a live recording in the terminal", description=_TOP)
    top.add_argument("run", nargs="?", metavar="RUN", help="a recording; default: the newest in ./runs")
    top.add_argument(
        "--every", type=values.seconds, default=2.0, metavar="SECONDS", help="how often to refresh; default: 2"
    )
    top.add_argument("--once", action="store_true", help="print it once and exit")
    doctor = commands.add_parser("doctor", help="report what is installed and what is broken", description=_DOCTOR)
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--imports", action="store_true", help=("also import each optional package, and report which fail")
    )
    explain = commands.add_parser("explain", help="explain a finding (BS201) or an error message", description=_EXPLAIN)
    explain.add_argument(
        "what",
        nargs="*",
        metavar="CODE",
        help="such as BS201, or a message, a file, or - for stdin; default: what is piped in, or a list of all codes",
    )
    demo = commands.add_parser("demo", help="see what backsight does, in a minute", description=_DEMO)
    demo.add_argument("--open", action=argparse.BooleanOptionalAction, help="open its recording in the browser")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; `arguments` are those after the program's name. Return the exit status."""
    words, parser = _words(sys.argv[1:] if arguments is None else arguments), command_line()
    to_command(words, parser)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        to_option(unknown[0], parser.commands[options.command])
    if options.command == "run":  # a program sees what it would see without us
        return _run(options)
    _open_closed_streams()
    try:
        return _other(options)
    except BrokenPipeError:  # who read has seen enough: `backsight explain | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + SIGINT


def _other(options: argparse.Namespace) -> int:
    """Run a command that runs no program."""
    if options.command == "demo":
        from backsight.demo import show

        return show(options.open)
    if options.command == "doctor":
        from backsight.tables.doctor import doctor as examine

        return examine(as_json=options.json, imports=options.imports)
    if options.command == "explain":
        from backsight.tables.codes import explain_code

        return explain_code(options.what)
    if options.command == "fix":
        return _fix(options)
    if options.command == "forecast":
        return _forecast(options)
    if options.command == "verify":
        return _verify(options)
    if options.command == "view":
        return _view(options)
    if options.command == "diff":
        return _diff(options)
    if options.command == "top":
        from backsight import tables

        return tables.top(options.run, seconds=options.every, once=options.once)
    return _runs(options)


def _open_closed_streams() -> None:
    """Let what is printed go nowhere where a stream is closed (`>&-`), for which Python has None.

    `print(file=None)` would write what is meant for a closed stderr to stdout.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # as long as the process


def _words(arguments: list[str]) -> list[str]:
    """Join `runs show` to one word, as argparse does not know a command that has some of its own and a folder too."""
    if arguments[:1] == ["runs"] and arguments[1:2] and arguments[1] in ("show", "audit", "export"):
        return [" ".join(arguments[:2]), *arguments[2:]]
    return arguments


def _add_run(commands: argparse._SubParsersAction[Parser]) -> None:
    run = commands.add_parser(
        "run", help="run a script and explain what goes wrong", description=_RUN, allow_abbrev=False
    )
    run.add_argument("--quiet", "-q", action="store_true", help="print nothing if nothing is found")
    run.add_argument(
        "--notes",
        action="store_true",
        help="also show findings that are usually intentional, such as frozen parameters",
    )
    run.add_argument("--json", action="store_true", help="print everything as JSON lines, for tools: docs/json.md")
    run.add_argument(
        "--json-to", metavar="FILE", help="append the JSON lines to this file, and also print the usual text"
    )
    run.add_argument(
        "--watch",
        choices=("exact", "lines", "calls"),
        help=(
            "how closely to watch the script: every call into PyTorch (exact, the default: 7 to 11 µs each), the "
            "lines that run (lines, the default with several ranks), or only modules and optimizers (calls)"
        ),
    )
    run.add_argument("--leaks", action="store_true", help="find graphs that pile up, and what keeps them alive")
    run.add_argument(
        "--nonfinite",
        action="store_true",
        help="find the operation that first produced NaN or infinity; reads every result",
    )
    run.add_argument("--record", action="store_true", help="record statistics of every tensor of its models")
    run.add_argument(
        "--run",
        "--into",  # torchrun and its like take --run for an option of their own, --run-path
        metavar="FOLDER",
        type=values.folder,
        help="record into this folder instead of runs/DATE-SCRIPT; use --into under torchrun, which has its own --run",
    )
    run.add_argument(
        "--every",
        metavar="N",
        type=values.count,
        help="record one step in N; default: as many as cost at most a tenth of the time",
    )
    run.add_argument(
        "--trace",
        metavar="STEPS",
        type=values.steps,
        help="trace these steps, for `backsight diff`: steps=0,1,100",
    )
    run.add_argument("--values", action="store_true", help="keep every tensor of a trace whole")
    run.add_argument("--twice", action="store_true", help="run it twice: is it reproducible, and if not, why?")
    run.add_argument("--report", metavar="FILE", type=values.report, help="record, and write one HTML file at the end")
    _take_program(run, "run")


def _add_fix(commands: argparse._SubParsersAction[Parser]) -> None:
    fix = commands.add_parser(
        "fix", help="try the fixes, and show the one that works", description=_FIX, allow_abbrev=False
    )
    fix.add_argument("--write", action="store_true", help="write the change into your files, if the script then runs")
    limit = "end a trial after this long, which then works; default: twice the time of the first run and 30"
    way = "of several changes that do, the Nth; default: 1"
    fix.add_argument("--way", type=values.count, metavar="N", default=1, help=way)
    fix.add_argument("--seconds", type=values.seconds, metavar="N", help=limit)
    fix.add_argument("--most", type=values.count, metavar="N", default=12, help="try this many changes; default: 12")
    _take_program(fix, "fix")


def _take_program(parser: Parser, name: str) -> None:
    ways = (f"backsight {name} [OPTION ...] {program} [ARGUMENT ...]" for program in ("SCRIPT", "-m MODULE"))
    parser.usage = "\n       ".join(ways)
    parser.add_argument("-m", dest="module", action="store_true", help="run a module, like python -m")
    parser.add_argument(
        "program", metavar="SCRIPT", nargs=argparse.REMAINDER, help="the script or module and its arguments"
    )
    parser.set_defaults(parser=parser)


def _add_runs(commands: argparse._SubParsersAction[Parser]) -> None:
    runs = commands.add_parser("runs", help="list recordings", description=_RUNS, allow_abbrev=False)
    runs.usage = "backsight runs [-h] [FOLDER]\n       backsight runs (show | audit | export) ..."
    runs.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="where to look; default: ./runs")
    show = commands.add_parser(
        "runs show",
        help="show the latest step of a recording, or several side by side",
        description=_SHOW,
        allow_abbrev=False,
    )
    show.add_argument("run", nargs="*", metavar="RUN", help="a recording; default: the newest in ./runs")
    show.add_argument("--step", type=int, metavar="N", help="this step instead of the latest")
    show.add_argument("--kind", action="append", metavar="KIND", help="only these: input,output,weight,grad,state,...")
    show.add_argument("--stat", action="append", metavar="STAT", help="only these: mean,std,min,max,absmax,norm,...")
    show.add_argument("--all", action="store_true", help="every module, even if many are alike")
    show.set_defaults(parser=show)
    audit = commands.add_parser(
        "runs audit", help="find problems in a recording", description=_AUDIT, allow_abbrev=False
    )
    audit.add_argument("run", nargs="*", metavar="RUN", help="recordings; default: the newest in ./runs")
    audit.add_argument("--json", action="store_true", help="print each finding as a line of JSON")
    export = commands.add_parser(
        "runs export", help="write a recording to one file", description=_EXPORT, allow_abbrev=False
    )
    export.add_argument("run", metavar="RUN", help="a recording")
    export.add_argument("file", metavar="FILE", help="output file: .parquet, .csv or .jsonl")
    export.add_argument("--by-rank", action="store_true", help="separate rows for each rank, not merged")


def _add_view(commands: argparse._SubParsersAction[Parser]) -> None:
    view = commands.add_parser("view", help="show recordings in a browser", description=_VIEW, allow_abbrev=False)
    view.add_argument(
        "path",
        nargs="?",
        default="runs",
        metavar="FOLDER",
        help="a folder of recordings, or a recording, as `runs show` takes it; default: ./runs",
    )
    view.add_argument("--port", type=values.port, default=0, metavar="N", help="use this port instead of a free one")
    view.add_argument("--open", action="store_true", help="open the browser")
    view.add_argument("--report", metavar="FILE", help="write a recording into one HTML file instead")


def _add_forecast(commands: argparse._SubParsersAction[Parser]) -> None:
    forecast = commands.add_parser(
        "forecast", help="predict how much memory a training step needs", description=_FORECAST, allow_abbrev=False
    )
    forecast.add_argument("function", metavar="MODULE:FUNCTION", help="such as train:step, or train.py:step")
    forecast.add_argument(
        "--memory", metavar="SIZE", type=values.memory, help=("device memory, such as 24GB: does the step fit?")
    )
    forecast.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        help="device that the step will run on; default: cuda if there is one, or with --memory",
    )
    forecast.add_argument(
        "--release",
        metavar="BUCKET",
        type=values.bucket,
        nargs="?",
        const="auto",
        help="forecast with gradient release",
    )
    forecast.add_argument(
        "--checkpoint",
        metavar="MODULE",
        nargs="*",
        help=("forecast with checkpointing of these modules; default: all repeated blocks"),
    )
    forecast.add_argument(
        "--dtype", metavar="TYPE", type=values.floating_dtype, help=("dtype of weights and inputs, such as bfloat16")
    )
    forecast.add_argument(
        "--autocast", metavar="TYPE", type=values.floating_dtype, help=("dtype of mixed precision, such as bfloat16")
    )


def _add_diff(commands: argparse._SubParsersAction[Parser]) -> None:
    diff = commands.add_parser("diff", help="find where two trainings diverge", description=_DIFF, allow_abbrev=False)
    diff.add_argument("a", metavar="A", help="a script, a command or a trace")
    diff.add_argument("b", metavar="B", help="what to compare it with")
    diff.add_argument("--trace", metavar="STEPS", type=values.steps, help="the steps to compare; default: steps=0,1")
    diff.add_argument("--values", action="store_true", help="keep every tensor whole")
    diff.add_argument("--rank", type=values.rank, default=0, metavar="N", help="the rank to compare; default: 0")
    diff.add_argument("--report", metavar="FILE", type=values.report, help="also write the comparison as one HTML file")
    diff.add_argument("--json", action="store_true", help="print plain data")
    diff.set_defaults(parser=diff)


def _add_verify(commands: argparse._SubParsersAction[Parser]) -> None:
    verify = commands.add_parser(
        "verify", help="test whether gradients are correct", description=_VERIFY, allow_abbrev=False
    )
    verify.add_argument("target", metavar="TARGET", help="such as layers.py:MyFunction, package.module:loss, layers.py")
    verify.add_argument(
        "--shape",
        metavar="4,3",
        type=values.shape,
        action="append",
        help="shape of an input; repeat for each input; scalar for a single number, 4:int64 for indices",
    )
    verify.add_argument(
        "--value",
        metavar="NAME=VALUE",
        type=values.value,
        action="append",
        help="what to pass for a parameter that is not a tensor: eps=1e-8; repeat for each",
    )
    verify.add_argument(
        "--dtype", metavar="TYPE", type=values.dtype, help="dtype of the inputs; default: float64, or the module's own"
    )
    verify.add_argument("--seed", metavar="N", type=int, help="seed for random inputs and directions; default: 0")
    verify.add_argument("--seconds", metavar="S", type=float, help="time limit per test; default: 60")
    verify.add_argument(
        "--second-order", action="store_true", help=("also check second derivatives, as for gradient penalties")
    )
    verify.add_argument("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int:
    _need_program(options)
    recorded = options.record or options.report
    if not recorded and (options.every is not None or (options.run is not None and not options.trace)):
        options.parser.error("--run and --every need a recording: add --record or --report")
    if options.values and not (options.trace or options.twice):
        options.parser.error("--values needs a trace: add --trace steps=0")
    if options.twice:
        return _twice(options)
    from backsight.launch import Observer, Together, overlay, run_module, run_script
    from backsight.launch.lines import as_lines
    from backsight.launch.training import TrainingObserver
    from backsight.launch.voice import of_several, tries

    script, *rest = options.program
    if not (is_trial := overlay.ask("" if options.module else script)):
        tries.command = shlex.join(["backsight", "fix", *_program(options)])
    as_lines.ask(script, stderr=options.json, file=options.json_to)
    of_several.ask()
    training = TrainingObserver(
        quiet=options.quiet,
        notes=options.notes,
        leaks=options.leaks,
        nonfinite=options.nonfinite,
        level=options.watch,
    )
    training.is_trial = is_trial
    observer: Observer = training
    recording: RecordingObserver | None = None
    if options.record or options.report:
        name = script.rpartition(".")[2] if options.module else Path(script).stem
        if options.report:
            from backsight.launch.reporting import ReportingObserver

            recording = ReportingObserver(
                name, options.report, keep=options.record, run=options.run, every=options.every, quiet=options.quiet
            )
        else:
            from backsight.launch.recording import RecordingObserver

            recording = RecordingObserver(name, run=options.run, every=options.every, quiet=options.quiet)
        training.recording = recording
        observer = Together(observer, recording)
    if options.trace:
        from backsight.launch.tracing import TracingObserver

        name = script.rpartition(".")[2] if options.module else Path(script).stem
        tracing = TracingObserver(
            name,
            options.trace,
            into=None if recorded else options.run,
            recording=recording,
            values=options.values,
            quiet=options.quiet,
        )
        observer = Together(observer, tracing)
    run = run_module if options.module else run_script
    return run(script, rest, observer)


def _fix(options: argparse.Namespace) -> int:
    _need_program(options)
    from backsight.fixing import fix

    words = _program(options)
    if _lacks(words[0]):
        return 2
    return fix(words, write=options.write, way=options.way, seconds=options.seconds, most=options.most)


def _need_program(options: argparse.Namespace) -> None:
    if not options.program:
        given = f"as in `backsight {options.command} train.py`"
        options.parser.error(f"nothing to run: pass a script, {given}, or -m and a module")


def _program(options: argparse.Namespace) -> list[str]:
    return ["-m", *options.program] if options.module else list(options.program)


def _twice(options: argparse.Namespace) -> int:
    from backsight.launch.twice import run_twice

    words = _program(options)
    if _lacks(words[0]):
        return 2
    return run_twice(words, options.trace or (0, 1), values=options.values, as_json=options.json)


def _runs(options: argparse.Namespace) -> int:
    from backsight import tables

    if options.command == "runs":
        return tables.list_runs(options.folder)
    if options.command == "runs audit":
        return tables.audit_runs(options.run, as_json=options.json)
    if options.command == "runs export":
        return tables.export_run(options.run, options.file, by_rank=options.by_rank)
    if len(options.run) > 1:
        if options.step is not None or options.kind or options.stat or options.all:
            options.parser.error("--step, --kind, --stat and --all work with one recording only")
        return tables.show_runs(options.run)
    one = options.run[0] if options.run else None
    return tables.show_run(
        one,
        step=options.step,
        kinds=values.split(options.kind),
        stats=values.split(options.stat),
        everything=options.all,
    )


def _forecast(options: argparse.Namespace) -> int:
    from backsight.tables.forecast import forecast_step

    return forecast_step(
        options.function,
        release=options.release,
        checkpointing=(options.checkpoint or True) if options.checkpoint is not None else None,
        dtype=options.dtype,
        autocast=options.autocast,
        device=options.device,
        device_memory=options.memory,
    )


def _verify(options: argparse.Namespace) -> int:
    from backsight.tables.verify import Options, verify_target

    shapes = tuple(options.shape or ())
    how = Options(shapes, dict(options.value or ()), options.dtype, options.seed, options.seconds, options.second_order)
    return verify_target(options.target, how, options.json)


def _diff(options: argparse.Namespace) -> int:
    try:
        options.a, options.b = _trace(options.a), _trace(options.b)
    except LookupError as error:  # a name that several runs have
        options.parser.error(str(error))
    scripts = [each for each in (options.a, options.b) if each.endswith(".py") and Path(each).is_file()]
    if Path(options.a).exists() and Path(options.b).exists() and len(scripts) < 2:
        from backsight.tables.difference import show_difference

        return show_difference(options.a, options.b, rank=options.rank, as_json=options.json, report=options.report)
    from backsight.launch.twice import program_of, run_both

    missing = [each for each in (options.a, options.b) if not Path(each).exists()]
    if len(missing) == 1 and any(Path(each).is_dir() for each in (options.a, options.b)):
        near = beside(missing[0]) or beside(Path("runs", missing[0]))
        options.parser.error(
            f"there is no trace at {missing[0]!r}{near or '.'} Pass the folders of two traces, or two commands"
        )
    try:
        a, b = ([each] if each in scripts else program_of(each) for each in (options.a, options.b))
    except ValueError as error:
        options.parser.error(str(error))
    if _lacks(a[0], b[0]):
        return 2
    return run_both(a, b, options.trace or (0, 1), values=options.values, as_json=options.json, report=options.report)


def _trace(named: str) -> str:
    """Return the folder of the run that a word names, as that is where its trace lies; else the word."""
    if Path(named).exists() or named.endswith(".py"):
        return named
    from backsight.tables.named import folder_of

    return str(folder_of(named))


def _lacks(*scripts: str) -> bool:
    """Complain of the first of these scripts that is not there; return whether there was one."""
    for each in scripts:
        if each != "-m" and not Path(each).exists():
            from backsight.tables.printing import complain

            complain(f"there is no file {each}{beside(each) or '.'}")
            return True
    return False


def _view(options: argparse.Namespace) -> int:
    from backsight.viewer.command import view_runs, write_report

    if options.report:
        return write_report(options.path, options.report)
    return view_runs(options.path, options.port, options.open)

"""`backsight run` without its command line: ``driver.py OBSERVER [-m] PROGRAM [ARGUMENT...]``."""

import sys

from backsight.launch import run_module, run_script


class Silent:
    """An observer that changes nothing on any stream."""

    def start(self):
        pass

    def error(self, error):
        pass

    def finish(self):
        pass


class Speaking:
    """An observer that tells on stderr what it is told."""

    def start(self):
        say("start", sys.argv[1:])

    def error(self, error):
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(dict(trace.tb_frame.f_locals))
            trace = trace.tb_next
        say("error", type(error).__name__, frames[-1].get("held") if frames else None)

    def finish(self):
        say("finish", getattr(sys.modules["__main__"], "kept", None))


class FailsAtStart(Silent):
    def start(self):
        raise RuntimeError("no start")


class FailsAtError(Silent):
    def error(self, error):
        raise RuntimeError("no explanation") from error


class FailsAtFinish(Silent):
    def finish(self):
        raise RuntimeError("no summary")


class ExitsAtFinish(Silent):
    def error(self, error):
        sys.exit(77)

    def finish(self):
        sys.exit(77)


class InterruptedAtError(Silent):
    def error(self, error):
        raise KeyboardInterrupt


class InterruptedAtStart(Silent):
    def start(self):
        raise KeyboardInterrupt


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("nothing to say")


class FailsUnspeakably(Silent):
    def start(self):
        raise Unspeakable


def say(*words):
    print("backsight:", *words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    _, watching, *command = sys.argv
    observer = globals()[watching]()
    if command[0] == "-m":
        sys.exit(run_module(command[1], command[2:], observer))
    sys.exit(run_script(command[0], command[1:], observer))

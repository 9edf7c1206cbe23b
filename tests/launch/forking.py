"""`backsight` that runs two programs, each on a fork of it as it was at the start: ``forking.py diff A.py B.py``."""

import json
import os
import socket
import subprocess
import sys


def words_of_the_program(line):
    """Fork a child for each command that is asked for on the line, and return in the child with its words."""
    while asked := line.recv(1 << 16):
        words, env = json.loads(asked)
        child = os.fork()
        if not child:
            os.dup2(2, 1)  # where `backsight diff` sends what its programs print
            os.environ.clear()
            os.environ.update(env)
            return words
        line.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def main(words):
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()

        def call(command, *, stdout, env):
            assert command[:3] == [sys.executable, "-m", "backsight"] and stdout is sys.stderr
            ours.sendall(json.dumps([command[3:], env]).encode())
            return int(ours.recv(16))

        subprocess.call = call
    else:
        ours.close()
        words = words_of_the_program(theirs)

    from backsight.cli import main as backsight

    return backsight(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The launcher inside every child process: runs a module, and ends it when the parent is gone.

Started by path (``python -P child.py MODULE [ARGUMENT…]``), it imports nothing of the package, so that the cloud
starts in a fraction of a second. Its standard input is a pipe whose other end only the parent holds, so that the pipe
closes when the parent ends. Unlike a death signal of the kernel, this works on every system and does not depend on the
thread that started the child.
"""

import contextlib
import os
import runpy
import signal
import stat
import sys
import threading

_KEPT = "QUARTERJACK_PARENT_PIPE"  # number of the pipe, for a module that replaces itself with a fresh interpreter
GRACE = 30.0  # seconds that an orphan has to finish (a worker its runs, the cloud its snapshot) before it is ended


def main() -> None:
    module, *arguments = sys.argv[1:]
    pipe = _take_pipe()
    threading.Thread(target=_follow, args=(pipe,), name="follow-parent", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _take_pipe() -> int:
    """Move the pipe to another number: code that reads standard input, here or in further children, finds it empty."""
    kept = int(os.environ.get(_KEPT, "0"))
    with contextlib.suppress(OSError):
        if kept and stat.S_ISFIFO(os.fstat(kept).st_mode):
            return kept
    pipe = os.dup(0)
    os.set_inheritable(pipe, True)  # survives an exec; `subprocess` closes it
    os.environ[_KEPT] = str(pipe)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return pipe


def _follow(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()

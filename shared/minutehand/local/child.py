"""The launcher inside every child process: runs a module, and ends it when the parent is gone.

Started by path (``python -P child.py MODULE [ARGUMENT…]``), it imports nothing of the package, so that the cloud
starts in a fraction of a second. Its standard input is a pipe whose other end only the parent holds: however the
parent dies, the pipe closes. Unlike a death signal of the kernel this works on every system and does not depend on
which thread of the parent started the child.
"""

import os
import runpy
import signal
import sys
import threading

GRACE = 30.0  # seconds an orphan gets to finish (a worker its runs, the cloud its snapshot) before it is ended for good


def main() -> None:
    module, *arguments = sys.argv[1:]
    pipe = os.dup(0)  # not inherited by grandchildren
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=_follow, args=(pipe,), name="follow-parent", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _follow(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()

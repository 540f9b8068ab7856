"""The first thing that runs in a child: tie its life to the worker's, then find the package where the worker found it.

Started by path (``python launch.py SOCKET FLAGS``, both file descriptors), it imports nothing of the package before the order has
said where that lies. Standard input is the life line: a pipe whose other end only the worker holds, and on which nothing is written.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback


def main() -> None:
    """Read the order and carry it out."""
    _hold_on()
    talk, flags = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for number in (talk.fileno(), flags):
        os.set_inheritable(number, False)  # programs that the job starts have no part in this
    lines = talk.makefile("rb")
    order = json.loads(lines.readline())
    sys.path[:] = order["path"]
    try:
        from minutehand.isolation.child import work  # noqa: PLC0415 (only now can it be found)
    except BaseException as problem:
        failure = {"kind": type(problem).__name__, "message": str(problem), "traceback": traceback.format_exc()}
        talk.sendall(json.dumps({"ended": {"kind": "Failed", "failure": failure}}).encode() + b"\n")
        raise
    work(order, talk, lines, flags)


def _hold_on() -> None:
    """Die with the worker, all of this process group.

    Linux is asked to kill the group when the pipe closes, which needs no line of Python to run: the job may hold the interpreter.
    Elsewhere a thread waits for it. A death signal of the kernel would reach this process only, and not what it forked.
    """
    pipe = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([pipe], [], [], 0)[0]:  # it closed before we asked
            os._exit(1)
    else:  # a thread only where it must be: it would make a job's fork() a fork of a process with threads
        threading.Thread(target=_follow, args=(pipe,), name="follow-worker", daemon=True).start()


def _follow(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()

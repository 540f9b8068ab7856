"""This process as if it ran on Windows: for the package's own modules, after the libraries that they import were loaded."""

from __future__ import annotations

import os
import signal
import socket
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

LIBRARIES = (
    *("asyncio", "boto3", "botocore.session", "concurrent.futures", "cron_descriptor", "cryptography", "fastapi"),
    *("http.server", "jinja2", "multiprocessing", "pydantic", "pytest", "rich.live", "rich.table", "subprocess"),
    *("tempfile", "typer", "urllib3", "uvicorn", "yaml", "logging.handlers", "anyio._backends._asyncio"),
)
MODULES = {"crypt", "curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
_OS = "chroot fork forkpty getegid geteuid getgid getloadavg getpgid getuid initgroups killpg O_ASYNC O_CLOEXEC O_NONBLOCK"
_OS += " P_PID pipe2 register_at_fork sched_getaffinity setgid setpgid setsid setuid uname wait3 wait4 waitid WEXITED WNOHANG WNOWAIT"
_SIGNAL = "alarm pthread_sigmask setitimer SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 SIG_BLOCK"
_LACKING: dict[ModuleType, str] = {os: _OS, signal: _SIGNAL, socket: "recv_fds send_fds"}


class _Finder:
    """Finds none of the modules that Windows lacks."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def pretend() -> None:
    """From now on. It cannot be taken back, so that it is for processes of their own."""
    for library in LIBRARIES:
        import_module(library)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Finder())
    for module, names in _LACKING.items():
        for name in names.split():
            vars(module).pop(name, None)
    sys.platform = "win32"

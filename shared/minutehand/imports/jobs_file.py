"""The Python file beside imported schedules: the jobs that they name, ready for a worker."""

from __future__ import annotations

_COMMANDS = '''
"""The job that the schedules from {source} name: it runs their commands.

    minutehand apply schedules.yaml --jobs jobs     # by this file's name, without .py
    minutehand worker --jobs jobs

A payload is the command as a line of shell (command:) or as a list (argv:), and what differs from the worker's own: environment,
directory (else the user's home), shell, stdin, user, timeout in seconds. A run succeeds with exit code 0 and keeps the end of the
output; any other exit code is a failed attempt, which is not repeated unless you say retry=.

On a worker process each run has a process group of its own, which its timeout, a cancellation and a lost worker end. On Lambda
there is no process of its own and no other user, the disk is read-only but for /tmp, 15 minutes are the most, and the programs must
be in the package or image. So for Lambda:

1. put the programs and scripts beside this file, or into the function's image;
2. take user: out of the payloads, and set HOME: /tmp in their environment: a command starts in HOME;
3. give what may take longer to a worker process: a queue of its own and `minutehand worker --queue` beside the stack.
"""

from minutehand.commands import command_job

command = command_job("{job}")  # e.g. timeout=3600: seconds of one attempt; retry=Retry(max_attempts=3)
'''


def for_commands(source: str, job: str) -> str:
    """The job that runs commands."""
    shown = source.replace("\\", "/").replace('"', "'")
    return _COMMANDS.lstrip("\n").format(source=shown, job=job)

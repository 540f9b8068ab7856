"""Isolation: a job with ``isolation="process"`` runs in a process of its own, which can be killed when a thread could not.

``perform_isolated`` stands where ``worker.execution.perform.call`` stands for a job in a thread. The worker keeps lease, visibility and
services. The job's process runs the job's code and asks the worker, over a socket, for what ``ctx`` does in the ledger and the bucket.
So a job that blocks its interpreter, exits, or is killed by the kernel costs its own attempt and nothing else.

    worker process          preloaded parent (one a worker)             job's process, leader of its own process group
    ──────────────          ───────────────────────────────             ──────────────────────────────────────────────
    start      ──────────►  import the modules of isolated jobs
    fork       ── socket ►  fork                          ───────────►  set environment, directory and limits
    order      ── socket ────────────────────────────────────────────►  call the job's function
    answers    ◄─ socket ────────────────────────────────────────────►  step, checkpoint, resume, progress; how it ended
    cancelled  ── shared memory ─────────────────────────────────────►  one byte
    kill       ── socket ►  SIGKILL to the group          ───────────►  (also when the worker or the parent dies)
    exit code  ◄─ socket ─  wait for its death

Read ``preloaded_parent`` and ``attempt`` for the worker's side, ``preload`` and ``fork_server`` for the parent's, ``child`` for the job's.
"""

from quarterjack.isolation.attempt import perform_isolated
from quarterjack.isolation.preload import check_isolated, modules_of
from quarterjack.isolation.preloaded_parent import PreloadedParent, report_of

__all__ = ["PreloadedParent", "check_isolated", "modules_of", "perform_isolated", "report_of"]

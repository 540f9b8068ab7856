"""Isolation: a job with ``isolation="process"`` runs in a process of its own, which can be killed when a thread could not.

``perform_isolated`` stands where ``flow.perform.perform`` stands for a job in a thread. The worker keeps lease, visibility and
services; its child runs the job's code and asks it, over a socket, for what ``ctx`` does in the ledger and the bucket. So a job that
blocks its interpreter, exits, or is killed by the kernel costs its own attempt and nothing else.

    worker process                                         child, leader of its own process group
    ──────────────                                         ──────────────────────────────────────
    order: function, message, fence, payload  ── socket ─►  import, call
    step, checkpoint, resume, progress        ◄─ socket ──  ask, and wait for the answer
    cancelled                                 ── flags ──►  one byte of shared memory
    how it ended                              ◄─ socket ──  then it ends
    alive                                     ── pipe ───►  closed when the worker dies, however it dies: the group is killed
"""

from minutehand.isolation.parent import perform_isolated
from minutehand.isolation.places import check_isolated

__all__ = ["check_isolated", "perform_isolated"]

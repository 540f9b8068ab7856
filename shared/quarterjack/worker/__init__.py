"""The worker: runs the jobs of received messages, each run under its lease.

Read in this order: stages (what a message becomes on its way), context (what all steps share), pipeline (the way), then the rooms
delivery, admission and execution.
"""

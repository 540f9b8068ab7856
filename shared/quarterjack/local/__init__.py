"""Quarterjack on one machine: an embedded cloud on loopback, and processes that run against it.

``cloud`` starts the emulator process (``engine``); ``installation`` adds tables, queues and processes.
"""

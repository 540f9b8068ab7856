"""Minutehand on one machine: an embedded cloud on loopback, and the processes that run against it."""

"""Reconcile tables that were restored to an earlier time, before the first tick: docs/explanation/protocol/restore.md."""

"""Reads of the history's books that owners, historian and auditor share: pages of many writers as one list, the latest entry first."""

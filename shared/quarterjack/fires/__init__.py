"""Plan, claim, send and withdraw the fires of a revision, for the ticker, the owner and backfills.

Read `context`, `chain`, `plan`, `claim`, then `withdraw` and `backpressure`.
"""

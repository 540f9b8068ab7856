"""Plan, claim, send and withdraw the fires of a revision, for the ticker, the owner and backfills.

Read `chain`, `plan`, `claim`, `send`, `missed`, then `withdraw` and `held_leases`.
"""

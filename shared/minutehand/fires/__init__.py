"""Plan, claim, send and withdraw the fires of a revision: what ticker, owner and backfill share."""

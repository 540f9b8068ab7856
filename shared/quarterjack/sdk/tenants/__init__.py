"""Operators' side of tenants: their profiles. Everything else in the SDK is about the schedules and runs of one tenant."""

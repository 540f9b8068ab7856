"""The table of tenants: profiles and API keys; and the rows that an erasure finds and removes."""

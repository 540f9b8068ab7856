"""For operators: tenants, what they may run, who may act for them, their API keys; and the way from one tenant to another."""

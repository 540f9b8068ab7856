"""What decides about tenants: tokens of their rates, and their circuit breakers."""

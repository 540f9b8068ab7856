"""Tenants: their profiles, and who may do what for them."""

"""The commands about an installation: run its roles, check it, freeze a tenant."""

"""A user's package, as the construct bundles it."""

"""The dashboard of an installation: what it shows as plain data, and its construct; and which tenants contribute the most."""

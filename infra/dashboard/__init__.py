"""The dashboard of an installation: its panels as plain data, its construct, and the rules for the tenants that contribute most."""

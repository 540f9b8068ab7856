"""The code of the functions: their bundles, the user's jobs in them, and Node for the CDK."""

"""What the functions are made of: their bundles, the user's jobs in them, and Node for the CDK."""

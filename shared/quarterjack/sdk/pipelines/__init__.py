"""SDK methods for pipelines."""

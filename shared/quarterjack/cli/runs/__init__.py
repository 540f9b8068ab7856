"""The commands about runs: submit, look, cancel, repeat and follow."""

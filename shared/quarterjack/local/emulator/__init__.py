"""What is replaced in MiniStack, which is the embedded local cloud."""

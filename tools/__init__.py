"""Programs of this repository's own making: what `make` calls and no user does."""

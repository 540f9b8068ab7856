"""Dead letters, incidents and the notifications about them."""

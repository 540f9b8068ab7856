"""What pages of the console and answers of the API cost over a large ledger: read units, requests, bytes, processor time."""

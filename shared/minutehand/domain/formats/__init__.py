"""Serialised forms: messages, dead letters, payloads and the schema number of each."""

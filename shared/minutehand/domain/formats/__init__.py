"""What is serialised: messages, dead letters, payloads and the schema number of each."""

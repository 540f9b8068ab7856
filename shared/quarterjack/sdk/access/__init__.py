"""Who may call what: ``calls`` (the verb of every method), ``permits`` (the checks), ``masking`` (rows without payloads), ``lookups``."""

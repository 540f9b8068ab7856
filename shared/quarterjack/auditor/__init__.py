"""The auditor: check the invariants every hour, repair violations and report them. Begin with ``audit``.

``log_closing`` and ``log_verification`` are about the audit log, the record of who did what.
"""

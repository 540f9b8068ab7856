"""The flow, one verb a file.

Read in this order and you have seen the system:

create, close, sweep (an owner acts) - submit - tick, handle, claim, publish (the ticker) - work, admit, lease, perform, settle,
heartbeat, erase (the worker) - bury (the undertaker) - audit (the auditor).

Every function gets its services and the time from its caller; ``ports`` names what it needs of them.
"""

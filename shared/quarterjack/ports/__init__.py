"""The protocols that adapters implement, one a module: tables, queues, the bucket and topics.

``dynamodb``, ``sqs`` and ``testing.memory`` implement them. Unless a method says otherwise:

- Times are UTC milliseconds, delays and waits are seconds.
- Reads are strongly consistent.
- Every method may raise ``Unavailable`` (throttled, timed out; a write may have taken effect) and ``Misconfigured`` (a table, queue
  or permission is missing). Batches do not raise ``Unavailable`` for single items: an item without an answer is absent from the result.
- A method that returns one object raises ``Unreadable`` for an item that is none, and ``TooNew`` for one of a later schema. Listings
  and batches log such an item and leave it out.
- A lost race is a result, not an error.
"""

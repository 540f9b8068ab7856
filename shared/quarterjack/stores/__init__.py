"""The stores: what Quarterjack keeps in tables, whichever engine has the tables. They know no AWS.

Reading order: ``tables`` (definitions; reads and writes as data; ``RowTables``, which an engine implements), ``rows`` (objects as rows and
back), then a module for each store: ``agenda``, ``ledger``, ``records``, ``schedules`` … ``dynamodb.dynamo_tables`` and
``testing.memory.tables`` are the engines. Unless a method says otherwise:

- Times are UTC milliseconds.
- Reads are strongly consistent.
- Every method may raise ``Unavailable`` (throttled, timed out; a write may have taken effect) and ``Misconfigured`` (a table or
  permission is missing). Batches do not raise ``Unavailable`` for single items: an item without an answer is absent from the result.
- A method that returns one object raises ``Unreadable`` for an item that is none, and ``TooNew`` for one of a later schema. Listings
  and batches log such an item and leave it out.
- A lost race is a result, not an error.
"""

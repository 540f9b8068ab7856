"""The control plane in DynamoDB: schedules, records and the index of dead runs, read and written by PynamoDB models.

What every tick or every run sends is not here: it goes in batches over our own client (``store``). PynamoDB loads botocore, a tenth of
a second, so ``models`` is imported by the first call that needs it.
"""

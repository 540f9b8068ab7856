"""What the rooms need of the outside world, one protocol a module; ``dynamodb``, ``sqs`` and ``testing.memory`` implement them."""

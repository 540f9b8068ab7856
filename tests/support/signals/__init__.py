"""What CloudWatch would do: the alarms of a synthesised template, evaluated minute by minute over captured figures.

Reading order: figures, formulas, alarms, evaluator.
"""

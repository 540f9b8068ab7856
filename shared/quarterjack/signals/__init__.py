"""What the roles measure of themselves: which metrics there are, and which of them a report of a role becomes.

Read ``catalogue`` first. Where measurements go (CloudWatch, OpenTelemetry, Prometheus) is the process's affair.
"""

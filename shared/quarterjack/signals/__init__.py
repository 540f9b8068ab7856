"""The metrics of the roles, and the measurements that a report of a role becomes.

Read ``catalogue`` first. A process chooses the sinks of its measurements: CloudWatch, OpenTelemetry, Prometheus.
"""

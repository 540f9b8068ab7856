"""``make aws-proof``: the whole of it on AWS, or on an embedded cloud: deploy, try, measure, report, remove.

Reading order: plan (what is done, what it costs), cloud, deployment, load, acceptance, faults, alarms, ramp, cost, report, removal.
"""

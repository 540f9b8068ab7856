"""The log lines of one run: from CloudWatch Logs, or from the files of processes on this machine.

Read ``merge`` first: it makes one list of what ``cloudwatch`` and ``files`` find in several logs.
"""

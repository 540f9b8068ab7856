"""The ticker's minute: `tick` reads the agenda's shards (`fan_out` over invocations) and passes due entries to `dispatch`."""

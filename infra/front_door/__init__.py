"""The deployed HTTP API and console, and the load balancer at which people sign in."""

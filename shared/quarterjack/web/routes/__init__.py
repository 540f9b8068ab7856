"""The routes, by what they are about. A route reads a request, calls the SDK once, and answers its view: no rule is here."""

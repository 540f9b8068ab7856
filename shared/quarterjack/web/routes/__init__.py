"""The routes by subject. A route reads a request, calls the SDK once, and answers its view: no rule is here."""

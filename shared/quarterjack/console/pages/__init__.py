"""The pages: each function reads an address, calls the SDK and renders a template."""

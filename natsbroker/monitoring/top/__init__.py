"""A terminal view of a running server, made from its monitoring pages."""

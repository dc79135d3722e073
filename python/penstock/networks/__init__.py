"""Converts a consensus, tornettools' relays or Shadow's graph into a network file.

`relays` has the common format of relays, `consensus` and `staging` read them, `graph` reads latency, and `file` joins
them.
"""

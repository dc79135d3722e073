"""Networks of what a user has: a consensus, tornettools' relays, Shadow's graph; and the file that holds one.

`relays` is what such a file says of relays, `consensus` and `staging` read them, `graph` reads latency, `file` joins
them.
"""

"""Converts a consensus, tornettools' relays, Shadow's graphs and hosts, or nstor's circuits into a network file.

`relays` has the common format of relays, which `consensus`, `staging`, `hosts` and `circuits` read. `graph` reads the
latency between countries. `internet` reads places with their delay and loss, from XML (`xml`) and from GML (`gml`).
`file` joins all parts.
"""

"""The stations of a cell at a hop, in the order in which it passes them."""

STATIONS = {
    "kernel_in_s": "kernel, incoming",
    "circuit_queue_s": "circuit queue",
    "outbuf_s": "output buffer",
    "kernel_out_s": "kernel, outgoing",
}
"""Columns of `cells` with the waits, and names."""

"""Optional parts of Penstock, which pip installs on request."""

NO_FIGURES = "figures need matplotlib: pip install 'penstock[plots]'"
"""The remedy where matplotlib is missing."""


def has_plots() -> bool:
    """Whether figures can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True

"""Compares two sets of downloads: outputs of Penstock, and measurements of OnionPerf, tornettools and tgen."""

from penstock.compare.find import read
from penstock.compare.sides import Comparison, compare
from penstock.compare.source import Source

__all__ = ["Comparison", "Source", "compare", "read"]

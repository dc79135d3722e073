"""Two sets of downloads side by side: outputs of penstock, and what OnionPerf, tornettools and tgen measured."""

from penstock.compare.find import read
from penstock.compare.sides import Comparison, compare
from penstock.compare.source import Source

__all__ = ["Comparison", "Source", "compare", "read"]

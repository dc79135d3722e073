"""Estimators that attackers use, and checks of their results."""

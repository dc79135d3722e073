"""Estimators of attackers, and whether their results are correct."""

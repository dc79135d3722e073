"""What adversaries and curious clients work out from what they see: estimators, and whether they are right."""

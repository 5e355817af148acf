"""Generators and measurements. Not part of the package."""

"""Generators of the dashboards and alert rules that are shipped as package data."""

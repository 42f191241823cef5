"""Workbench: measure a local LLM server honestly, flip one variable, and know what changed."""

__version__ = "0.1.0"

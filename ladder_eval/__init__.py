"""Accuracy and speed of communication-reducing transformers beside their dense baselines."""

__all__ = ["__version__"]

__version__ = "0.1.0"

"""What runs beside a program under test: the standard library alone, and no expected results.

In the sandbox this is a package of its own, since nothing else of ladder-eval is there.
"""

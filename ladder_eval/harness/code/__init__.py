"""Code that models wrote: finding it in their answers, running it in a sandbox, judging its values.

Problems, tests and rules of comparison are evalplus'; running is ours, because evalplus runs
programs with the rights of whoever starts it.
"""

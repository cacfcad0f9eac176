"""One page about runs: is the candidate as good, how sure is that, and how much faster is it?"""

"""How fast a residual is: interleaved rounds on ranks, loads, and the bound of dependencies."""

"""How fast a residual is: interleaved rounds on real ranks, and the bound that dependencies set."""

"""The commands: parse, one call, print. Heavy imports happen inside them."""

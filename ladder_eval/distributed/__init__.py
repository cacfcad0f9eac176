"""Where it is computed: the tensor-parallel group, its shares, its processes and their watch."""

"""What is computed: the decoder, its residual topologies, and the checkpoints it is read from."""

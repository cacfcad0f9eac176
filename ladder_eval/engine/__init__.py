"""How requests become numbers: token ids in, log-likelihoods or tokens out."""

"""A model outside the package, the example of how to add one: the neural n-gram language model (Bengio et al. 2003)."""

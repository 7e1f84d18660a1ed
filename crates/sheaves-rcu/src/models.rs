//! Models of the protocols, run by loom through every order of their steps.

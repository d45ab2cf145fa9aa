"""The one way from a protected record to a public one, and the gate that holds what leaves against what must not."""

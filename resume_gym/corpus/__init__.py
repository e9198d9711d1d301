"""Making files of tasks fit to train on: importing, checking, describing and sharing them."""

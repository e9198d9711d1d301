"""Learners: reinforcement learning of resume-editing policies. Start at `aipo.py`."""

import logging

# where torchao is installed, transformers imports it, and it tells of kernels nobody asked for
for _name in ("torchao", "torch.utils._pytree"):
    logging.getLogger(_name).setLevel(logging.ERROR)

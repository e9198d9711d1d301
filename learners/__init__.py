"""Learners: reinforcement learning of resume-editing policies. Start reading at `aipo.py`."""

import logging

# transformers imports torchao, if installed: hide torchao's warnings about missing kernels
for _name in ("torchao", "torch.utils._pytree"):
    logging.getLogger(_name).setLevel(logging.ERROR)

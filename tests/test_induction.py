"""The hand-set heads do what their docstring says, before any training."""

import torch

from learners.imitation import make_model


def test_an_untrained_model_attends_to_the_predecessor_and_to_what_followed() -> None:
    torch.manual_seed(0)
    model = make_model(512)
    model.set_attn_implementation("eager")
    sequence = torch.randperm(509)[:40] + 3
    repeated = torch.cat([sequence, sequence])[None]
    first, second = model(repeated, output_attentions=True).attentions[:2]
    assert first[0, 0].diagonal(-1).mean() > 0.8
    # in the repetition, the token after the earlier occurrence is 39 places back
    assert second[0, 0].diagonal(-39)[1:].mean() > 0.6
    assert second[0, 1].diagonal(-39)[1:].mean() > 0.6

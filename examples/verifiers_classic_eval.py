r"""verifiers 0.3 evaluates a model on the environment; here the careful agent behind a server.

    pip install verifiers==0.3.1 -e . -e packages/verifiers
    python examples/verifiers_classic_eval.py

With a real model, for instance behind `vllm serve MODEL --enable-auto-tool-choice
--tool-call-parser hermes`, the same from the command line:

    vf-eval resume-edit -a '{"gym_id": "ResumeEditMini-v0"}' -n 5 -r 2 \
        -b http://localhost:8000/v1 -m MODEL

The example prints

    10 episodes, mean reward 5.05
    edit                    0.45
    failed_edit             0.00
    malformed               0.00
    review                  1.00
    submit                  1.00
    no_submit               0.00
    layout                  1.00
    hallucination           0.60
    clarity                 0.20
    quantification          0.00
    jd_alignment           -0.05
    action_verbs            0.05
    preference              0.80
    turns_left              2.20
    edits                   1.80
    failed_edits            0.00
    lines                  18.80
    longest_line          142.80
    submitted               1.00
    episode_reward          5.05
    graded                  1.00
    score                  85.00
    verdict_hallucination   0.60
    verdict_clarity         0.80
    verdict_quantification  0.00
    verdict_jd_alignment   -0.20
    verdict_action_verbs    0.20
    verdict_preference      0.80
    num_turns               3.80
"""

from statistics import mean
from typing import Any

import verifiers as vf
from verifiers_eval import ENV, careful, served


def main() -> None:
    env: Any = vf.load_environment("resume-edit", gym_id=ENV)
    with served(careful) as url:
        client = vf.ClientConfig(api_base_url=url, api_key_var="NO_KEY")
        results = env.evaluate_sync(client, "careful", num_examples=5, rollouts_per_example=2)
    outputs = results["outputs"]
    print(f"{len(outputs)} episodes, mean reward {mean(one['reward'] for one in outputs):.2f}")
    for name in outputs[0]["metrics"]:
        print(f"{name:22}{mean(one['metrics'][name] for one in outputs):6.2f}")


if __name__ == "__main__":
    main()

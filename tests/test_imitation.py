from learners.nano.imitation import RULES, demonstrations, unfamiliar
from learners.rollouts.tokens import ChatTokens
from learners.training.models import load_tokenizer
from resume_gym import TOOLS, ToolCall, load_tasks, parse, tool_call

TOKENIZER = load_tokenizer("nano")


def test_demonstrations_of_a_state_share_its_tokens() -> None:
    tasks = load_tasks("mini", "train")[:60]
    groups = list(demonstrations(ChatTokens(TOKENIZER, TOOLS), unfamiliar(tasks, 1), 8, 1))
    assert len(groups) > 40
    starts = set()
    for group in groups:
        assert sum(one.advantage for one in group) == 8
        assert len({tuple(one.response) for one in group}) == len(group)
        assert all(one.prompt == group[0].prompt and all(one.sampled) for one in group)
        for one in group:
            text = TOKENIZER.decode(one.response).removesuffix("<|im_end|>")
            assert isinstance(parse(text), ToolCall)
        state = TOKENIZER.decode(group[0].prompt)
        assert state.rstrip().endswith("<|im_start|>assistant")
        assert f"/{RULES.max_turns} | edits: " in state
        starts.add(state.split("\n")[0] if state.startswith("<|im") else tool_call("review"))
        if not state.startswith("<|im"):
            assert state.startswith(tool_call("review"))
    assert len(starts) == 2, "with the prompt, and from the review on"

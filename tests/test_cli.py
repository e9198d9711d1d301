import json

import pytest
from native_model import model

from resume_gym import tool_call
from resume_gym.agents import AGENTS
from resume_gym.cli import main
from resume_gym.judges import JudgeError, JudgeMisconfigured
from resume_gym.judges.rubric import RubricJudge
from resume_gym.llm import Usage

TASKS = "procedural:5:6"


def as_json(capsys, *arguments):
    """What `eval --json` prints, and nothing but that."""
    capsys.readouterr()
    assert main(["eval", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_eval_prints_a_column_for_each_agent(capsys):
    assert main(["eval", "--tasks", TASKS]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ResumeEdit-v0 | tasks: procedural:5:6, eval | judge: rubric | seed: 0")
    assert out.split("\n")[2].split() == list(AGENTS)
    assert "oracle - careful" in out
    assert "Wilcoxon" in out
    assert err == ""
    assert all(len(line) <= 80 for line in out.split("\n"))


def test_eval_prints_json(capsys):
    command = ["--agent", "noop", "--agent", "random", "--tasks", TASKS, "--rollouts", "2"]
    written = as_json(capsys, *command)
    assert written["env"] == "ResumeEdit-v0"
    assert written["rules"]["max_turns"] == 10
    assert list(written["agents"]) == ["noop", "random"]
    noop = written["agents"]["noop"]
    assert noop["summary"]["episodes"] == len(noop["episodes"]) == 12
    assert noop["summary"]["by_weakness"]["too_long"] == -1.25
    assert written["comparisons"][0]["second"] == "random"
    floor = as_json(capsys, "--agent", "floor", "--tasks", TASKS)["agents"]["floor"]["summary"]
    assert written["floor"] == floor["reward"]

    assert as_json(capsys, *command) == written
    assert as_json(capsys, *command, "--seed", "1") != written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "bad.jsonl"], "bad.jsonl, line 1: job: missing"),
        (["--agent", "orcale"], "--agent: expected one of noop, random, floor, careful, oracle, "
         "nano, smollm2, smollm2-editor, the folder of a model or a run, OWNER/NAME, or MODEL@URL; "
         "got 'orcale'; did you mean 'oracle'?"),
        (["--agent", "."], "--agent: expected the folder of a run or a checkpoint, or of a"),
        (["--agent", '{"model": "nano", "heat": 1}'], "expected options among temperature"),
        (["--agent", "noop", "--agent", "noop=careful"], "two agents are called 'noop'; use"),
        (["--agent", "m@http://h/v1", "--env", "nowhere:X-v0"], "No module named 'nowhere'"),
        (["--agent", "careful", "--env", "examples.release_notes:ReleaseNotes-v0"],
         "--agent careful: careful edits only resumes; examples.release_notes:ReleaseNotes-v0"),
        (["--env", "ResumeEdit-v1"], "got 'ResumeEdit-v1'; did you mean 'ResumeEdit-v0'?"),
        (["--env", "CartPole-v1"], "or module:ID; CartPole-v1 is not an editing environment"),
        (["--judge", "nope"], "listwise; got 'nope'\n"),
        (["--judge", "gemini"], "gemini-3-flash-preview: expected a key in GOOGLE_API_KEY or"),
        (["--judge", '{"name": "votes"}'], "--judge: judge 'votes': expected the option 'judge'"),
        (["--judge", '{"name": "votes", "judge": "rubric", "vote": 3}'], "did you mean 'votes'?"),
        (["--judge", '{"name": "rubric", "draws": 3}'], "expected options among fixes"),
        (["--agent", "gpt-5@openai"], "--agent gpt-5: openai/gpt-5: expected a key in OPENAI"),
        (["--tasks", "missing.jsonl"], "there is no file 'missing.jsonl'"),
        (["--judge", '{"name": "votes", "judge": 5}'], "a name or a mapping with the key 'name'"),
        (["--tasks", TASKS, "--out", "file"], "expected a folder; 'file' is a file"),
        (["--rollouts", "3", "--best-of", "4", "2"],
         "--best-of: expected at most 3, the --rollouts; got 4"),
    ],
)  # fmt: skip
def test_user_errors_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").touch()
    (tmp_path / "bad.jsonl").write_text('{"task_id": "a"}\n')
    assert main(["eval", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("resume-gym: ")
    assert message in err
    assert err.count("\n") == 1


class Down:
    """A judge that cannot be reached: `--judge test_cli:Down`."""

    name = "down"

    def judge(self, task, revised):
        raise JudgeError("no answer")


class Broken(Down):
    """A judge that can say nothing of anything."""

    def judge(self, task, revised):
        raise JudgeMisconfigured("no key")


def test_a_judge_that_fails_is_reported_and_not_a_number(capsys):
    command = ["eval", "--agent", "careful", "--tasks", TASKS, "--judge"]
    assert main([*command, "test_cli:Down"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("resume-gym: careful: no reward for 6 of 6 episodes; the first is ")
    assert err.endswith("JudgeError: no answer\n")
    assert main([*command, "test_cli:Broken"]) == 1
    assert capsys.readouterr() == ("", "resume-gym: no key\n")


def test_the_table_of_many_agents_fits_a_terminal(capsys):
    names = "abcdefgh"
    agents = [word for name in names for word in ("--agent", f"{name}=noop")]
    assert main(["eval", *agents, "--tasks", "procedural:5:2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 80
    assert (
        "".join("".join(line.split()) for line in lines if line.strip(" abcdefgh") == "") == names
    )


def test_a_limit_plays_the_same_tasks_for_everybody(capsys):
    def played(*arguments):
        agents = ("--agent", "noop", "--agent", "random", "--tasks", TASKS)
        written = as_json(capsys, *agents, *arguments)["agents"]
        noop, random = ([e["task_id"] for e in one["episodes"]] for one in written.values())
        assert noop == random
        return noop

    three, every = played("--limit", "3", "--seed", "7"), played()
    assert [name for name in every if name in three] == three == played("--limit", "3")
    assert len(three) == 3
    assert set(three) < set(played("--limit", "4"))
    assert played("--limit", "99") == every


class Paid(RubricJudge):
    """A judge that costs a dollar a verdict: `--judge test_cli:Paid`."""

    name = "paid"
    usage = Usage(0, 0, 0, 0, 0.0)

    def judge(self, task, revised):
        Paid.usage += Usage(1, 0, 900, 100, 1.0)
        return super().judge(task, revised)


def test_tokens_and_cost_of_models_are_shown(capsys, monkeypatch):
    monkeypatch.setattr("resume_gym.evaluation.progress._LINE_S", 0.0)
    with model(lambda turn: tool_call("submit")) as server:
        agents = ["--agent", f"gpt-4.1@{server.url}", "--agent", "oracle"]
        command = ["eval", *agents, "--tasks", TASKS, "--rollouts", "1", "--judge", "test_cli:Paid"]
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert "oracle: 3 of 6 episodes" in err
        assert "3,000 tokens, $3.00 of about $6.00\n" in err
        rows = {line[:30].strip(): line[30:].split() for line in out.split("\n")}
        assert rows["agent, tokens"] == ["72", "-"]
        assert rows["judge, tokens"] == ["0", "6,000"]
        assert rows["judge, dollars"] == ["0.00", "6.00"]
        assert rows["agent, dollars"] == ["0.00025", "-"]
        main([*command, "--json"])
    spent = {
        name: one["spent"] for name, one in json.loads(capsys.readouterr().out)["agents"].items()
    }
    assert spent["gpt-4.1"]["agent"]["dollars"] == pytest.approx(6 * (9 * 2 + 3 * 8) / 1e6)
    assert spent["oracle"]["judge"] == {
        "calls": 6, "stored": 0, "tokens_in": 5400, "tokens_out": 600, "dollars": 6.0
    }  # fmt: skip


def test_eval_plays_other_domains(tmp_path, capsys):
    env = "examples.release_notes:ReleaseNotes-v0"
    command = ["--agent", "noop", "--env", env, "--out", str(tmp_path / "notes")]
    written = as_json(capsys, *command)
    assert (written["env"], written["judge"]) == (env, "editor")
    assert written["rules"]["page_lines"] == 15
    assert set(written["agents"]["noop"]["summary"]["verdict"]) == {
        "coverage",
        "placement",
        "noise",
    }
    assert main(["eval", *command]) == 0
    assert "placement" in capsys.readouterr().out


def test_random_plays_any_domain_by_its_tools(capsys):
    env = "examples.release_notes:ReleaseNotes-v0"
    written = as_json(capsys, "--agent", "random", "--env", env)
    found = written["agents"]["random"]["summary"]
    assert found["edits"] > 0
    assert 0 < found["submit_rate"] < 1
    assert 0 < found["malformed"] < found["turns"]


def test_an_agent_that_is_given_twice_is_played_once(capsys):
    agents = ["--agent", "noop", "--agent", "noop"]
    assert main(["eval", *agents, "--tasks", TASKS, "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.split().count("noop") == 1
    assert "--agent noop: given 2 times, played once; NAME=noop plays it under another name" in err


def test_scores_of_groups_are_said_to_be_left_out(capsys):
    judge = '{"name": "pairwise", "judge": "rubric", "weight": 1}'
    arguments = ["eval", "--agent", "noop", "--tasks", TASKS, "--limit", "1", "--judge", judge]
    assert main(arguments) == 0
    told = "scores of groups by pairwise(rubric): not in these figures"
    assert told in capsys.readouterr().err


def test_rollouts_are_one_of_scripted_agents_and_sixteen_else(capsys):
    with model(lambda turn: tool_call("submit"), delay_s=2.0) as server:
        agents = ["--agent", "noop", "--agent", f"m=scripted@{server.url}"]
        assert main(["eval", *agents, "--tasks", "procedural:5:2", "--split", "train"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.split("\n")]
        assert len(server.requests) == 2 * 16
        assert ["played", "32", "32"] in rows
        assert server.most > 16, "episodes of different tasks at once"
    assert ["mean", "0.75", "0.75"] in rows or ["mean", "-0.25", "-0.25"] in rows

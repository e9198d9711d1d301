"""What runs and evaluations leave behind becomes pictures."""

import dataclasses
import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from learners.config import Config
from learners.run.folder import _CHANGEABLE
from resume_gym.agents import AGENTS
from resume_gym.apps.plot import reading
from resume_gym.apps.plot.bars import MeanBar, by_weakness, draw_bars
from resume_gym.apps.plot.plot import draw_summaries, of_run, plot
from resume_gym.apps.plot.reading import read_evaluations
from resume_gym.apps.plot.runs import draw_runs, grouped
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.cli import main
from resume_gym.figures.dashboard import OVERVIEW, TRAINER, dashboard, draw_panels
from resume_gym.figures.style import styled
from resume_gym.support.user_errors import TaskError

Capsys = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[1]
STEP = {"metrics.jsonl": '{"step": 1}\n'}
DOMAIN = {"verdict_coverage": 0.5, "verdict_noise": -0.5}
FIELDS = ("hallucination", "clarity", "quantification", "jd_alignment", "action_verbs")


def write_lines(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def evaluate(folder: Path, agents: Sequence[str], tasks: int) -> Path:
    """Play scripted agents."""
    named = [word for agent in agents for word in ("--agent", agent)]
    what = ["--env", "ResumeEditMini-v0", "--limit", str(tasks)]
    assert main(["eval", *named, *what, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(tmp_path_factory.mktemp("results") / "scripted", tuple(AGENTS), 8)


def read_run(folder: Path) -> reading.Run:
    return reading.read_run(FolderContents(folder))


def learning(steps: int) -> list[dict[str, float]]:
    """Metrics of a run whose content dips at a quarter of it and whose tool calls improve."""
    noise = random.Random(0)
    rows = []
    for step in range(1, steps + 1):
        done = step / steps
        tools = 0.8 + 2.2 * min(1, 5 * done) + noise.gauss(0, 0.08)
        content = 1.4 + 0.4 * done - math.exp(-(((done - 0.25) / 0.08) ** 2)) + noise.gauss(0, 0.08)
        row = {"step": step, "reward": tools + content + 0.5, "reward_std": 1.4, "layout": 0.5}
        row |= {"tool_syntax": tools, "content": content, "score": 60 + 20 * done, "lines": 18.5}
        row |= {f"verdict_{name}": i * (1 - done) / 5 for i, name in enumerate(FIELDS)}
        row |= {"submit_rate": done, "judged": 0.9, "edits": 3, "failed_edits": 2 - done}
        row |= {"failed_share": 0.3, "malformed": 0.1, "turns": 6, "layout_pass": 0.8}
        row |= {"seconds_rollout": 19.2, "seconds_train": 21.5, "seconds_publish": 0.1}
        row |= {"loss": noise.gauss(0, 0.01), "ratio_std": 0.02 + noise.random() / 100}
        rows.append(row | {"entropy": 0.2, "gradient_norm": 0.5, "gap": 1e-7})
    return rows


HELD_OUT: list[dict[str, Any]] = [
    {"step": 0, "reward": 1.9, "score": 61.0, "errors": {"reward": 0.4, "score": 3.0}},
    {"step": 1, "reward": 3.8},
]


def short(steps: int) -> list[dict[str, float]]:
    """Few metrics, since each panel takes a while to draw."""
    return [{"step": step, "reward": 0.1 * step, "entropy": 0.2} for step in range(1, steps + 1)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "nano"
    write_lines(folder / "metrics.jsonl", short(60))
    (folder / "config.toml").write_text('model = "some/where/policy"\n')
    parts = {"reward": 2.5, "tool_syntax": 1.0, "layout": 0.5, "content": 1.0}
    for when in ("before", "after"):
        kinds = {"too_long": -1.0, "weak_verbs": 2.0}
        (folder / f"{when}.json").write_text(json.dumps({**parts, "by_weakness": kinds}))
    return folder


def titles(figure: Figure | None) -> list[str]:
    assert figure
    return [axes.get_title(loc="left") for axes in figure.axes]


def texts(figure: Figure) -> list[Text]:
    """What a reader sees: tick labels outside of the limits exist, but are not drawn."""
    axes = [axis for one in figure.axes for axis in (one.xaxis, one.yaxis)]
    unseen = set()
    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            inside = low - 1e-9 <= tick.get_loc() <= high + 1e-9
            unseen |= {tick.label2} if inside else {tick.label1, tick.label2}
    found = [one for one in figure.findobj(Text) if isinstance(one, Text)]
    return [one for one in found if one.get_visible() and one.get_text() and one not in unseen]


def faults(figure: Figure | None) -> list[str]:
    """Texts of a figure that are cut off or lie on each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    assert figure
    FigureCanvasAgg(figure).draw()
    boxes = [(one.get_text(), one.get_window_extent()) for one in texts(figure)]
    assert len(boxes) > 5
    width, height = figure.bbox.x1 + 1, figure.bbox.y1 + 1
    found = [
        f"{text!r} is cut off"
        for text, box in boxes
        if min(box.x0, box.y0) < -1 or box.x1 > width or box.y1 > height
    ]
    for i, (text, box) in enumerate(boxes):
        for other, beside in boxes[i + 1 :]:
            if box.padded(-1).overlaps(beside.padded(-1)):
                found.append(f"{text!r} on {other!r}")
    return found


def test_a_run_becomes_pictures_without_overlaps(run: Path) -> None:
    write_lines(run / "metrics.jsonl", learning(60))
    with styled():
        read = read_run(run)
        assert read.title == "nano (model: policy)"
        drawn = dict(of_run(read))
        assert list(drawn) == ["training", "trainer", "components", "weaknesses"]
        for name, figure in drawn.items():
            assert not faults(figure), name
    for name, panels in (("training", OVERVIEW), ("trainer", TRAINER)):
        assert titles(drawn[name]) == [panel.title for panel in panels]


def test_evaluations_become_pictures_without_overlaps(results: Path) -> None:
    with styled():
        read = read_evaluations([FolderContents(results)])
        drawn = dict(draw_summaries(read.summaries, read.title))
        assert list(drawn) == ["components", "weaknesses"]
        for name, figure in drawn.items():
            assert not faults(figure), name


def test_many_agents_with_long_names_stay_legible() -> None:
    noise = random.Random(0)
    model = f"openai:http://localhost:8000/v1:organisation/model_{'long_' * 20}$x^2$"
    names = [f"{model}-{i}" for i in range(9)]
    parts = ("reward", "tool_syntax", "layout", "content")
    summaries = {
        name: {**{part: noise.gauss(2, 1) for part in parts}, "tasks": 6, "errors": {"reward": 0.5}}
        for name in names
    }
    title = "an environment, judge: " + "a long specification, " * 9
    with styled():
        figure = dict(draw_summaries(summaries, title, "A note. " * 30))["components"]
        assert not faults(figure)
    assert figure
    (axes,) = figure.axes
    assert axes.bbox.height > 200
    assert len({(one.get_facecolor(), one.get_hatch()) for one in axes.patches}) == len(names)


def test_held_out_points_have_the_errors_that_are_known(run: Path) -> None:
    write_lines(run / "metrics.jsonl", learning(60))
    write_lines(run / "evaluations.jsonl", HELD_OUT)
    with styled():
        figure = dict(of_run(read_run(run)))["training"]
        assert figure
        assert not faults(figure)
    reward, score, parts = figure.axes[:3]
    (points,) = reward.containers
    assert points[0].get_xydata().tolist() == [[0, 1.9], [1, 3.8]]
    (whiskers,) = points[2]
    assert whiskers.get_segments()[0].tolist() == [[0, 1.5], [0, pytest.approx(2.3)]]
    assert len(score.containers) == 1
    assert not parts.containers
    assert "Black: held-out tasks" in " ".join(one.get_text() for one in texts(figure))


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_a_run_of_few_steps_is_drawn_as_points_without_a_mean(steps: int) -> None:
    rewards = [float(step % 3) for step in range(steps)]
    rows = [{"step": step, "reward": reward} for step, reward in enumerate(rewards, 1)]
    with styled():
        figure = draw_panels(rows, OVERVIEW, "title")
    assert figure
    *_, drawn = figure.axes[0].lines
    assert (drawn.get_marker() == "o") == (steps < 10)
    assert (list(drawn.get_ydata()) == rewards) == (steps < 10)


def test_noise_below_the_floor_of_a_logarithmic_panel_is_a_line() -> None:
    rows = [{"step": step, "gap": step * 1e-9} for step in range(1, 9)]
    with styled():
        figure = draw_panels(rows, TRAINER, "title")
    assert figure
    (axes,) = figure.axes
    assert axes.get_ylim() == (1e-6, 1)
    assert {y for line in axes.lines for y in line.get_ydata()} == {1e-6}
    assert "≤ 1e-06" in [one.get_text() for one in texts(figure)]


def test_panels_without_data_are_left_out() -> None:
    rows = [{"step": i, "reward": 1.0 + i, "turns": 3.0, "tokens": 9.0} for i in range(1, 5)]
    with styled():
        assert titles(draw_panels(rows, OVERVIEW, "text")) == [
            "Reward, ± sd of episodes",
            "Turns and calls an episode",
        ]
        assert draw_panels(rows, TRAINER, "text") is None


def test_another_domain_has_its_own_fields() -> None:
    rows = [{"step": i, "reward": 1.0, **DOMAIN} for i in range(1, 5)]
    kinds = {"misplaced": 1.5, "duplicate": 1.0}
    own = {"by_weakness": kinds, "tasks_by_weakness": dict.fromkeys(kinds, 1)}
    with styled():
        figure = draw_panels(rows, OVERVIEW, "notes")
        assert titles(figure) == ["Reward, ± sd of episodes", "Judge, -1 to +1"]
        shown = {one.get_text() for one in texts(figure)} if figure else set()
        assert {"coverage", "noise"} <= shown
        bars = draw_bars(by_weakness({"a": own}), "notes")
    assert bars
    labels = [one.get_text() for one in bars.axes[0].get_xticklabels()]
    assert labels == ["duplicate\nn = 1", "misplaced\nn = 1"]


def test_the_floor_is_a_dashed_line_in_the_panels_of_the_reward() -> None:
    with styled():
        figure = draw_panels(learning(4), OVERVIEW, "run", (), {"reward": 4.0, "score": 70.0})
    assert figure
    dashed = [
        [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
        for axes in figure.axes
    ]
    assert dashed[:3] == [[4.0], [70.0], []]


def test_the_dashboard_is_a_picture_of_everything(tmp_path: Path) -> None:
    floor = {"reward": 4.0, "score": 70.0}
    for rows in (learning(1), learning(40)):
        rows[-1]["gap"] = 0.0  # which has no logarithm
        with styled():
            assert not faults(draw_panels(rows, (*OVERVIEW, *TRAINER), "a title", HELD_OUT, floor))
    dashboard(rows, tmp_path / "a.png", "a title", HELD_OUT, floor)
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width == 1660
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 22) or ()}
    assert {(255, 255, 255), (0, 114, 178), (213, 94, 0)} <= colours
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_same_data_give_the_same_bytes(results: Path, tmp_path: Path) -> None:
    """In another process, whose hashes and matplotlib settings are others."""
    first = plot([results], tmp_path / "one")
    code = (
        "import matplotlib, sys; from pathlib import Path;"
        "from resume_gym.apps.plot.plot import plot;"
        "matplotlib.rcParams.update({'font.size': 20, 'lines.linewidth': 9, 'svg.fonttype': 'none',"
        "'savefig.bbox': 'tight'}); plot(map(Path, sys.argv[2:]), Path(sys.argv[1]))"
    )
    again = [sys.executable, "-c", code, tmp_path / "two", results]
    subprocess.run(again, cwd=ROOT, check=True, timeout=600)
    assert len(first.files) == 2 * 2
    for file in first.files:
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        assert file.read_bytes() == other.read_bytes(), file.name
        if file.suffix == ".svg":
            assert ElementTree.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def a_run(folder: Path, config: str, shift: float = 0, steps: int = 30) -> Path:
    rows = learning(60)[:steps]
    rows = [{**row, "reward": row["reward"] + shift} for row in rows]
    write_lines(folder / "metrics.jsonl", rows)
    write_lines(folder / "evaluations.jsonl", [{"step": s, "reward": 2 + shift} for s in (0, 10)])
    (folder / "config.toml").write_text(f'model = "nano"\nname = "{folder.name}"\n{config}')
    return folder


def test_runs_that_differ_in_their_seed_are_a_group(tmp_path: Path) -> None:
    folders = [
        a_run(tmp_path / "a", "seed = 1\nlearning_rate = 0.1\n"),
        a_run(tmp_path / "b", "seed = 2\nlearning_rate = 0.1\nlog_to = ['wandb']\n", 2, 20),
        a_run(tmp_path / "c", "seed = 1\nlearning_rate = 0.2\n", 5),
    ]
    runs = [read_run(folder) for folder in folders]
    groups = grouped(runs)
    assert [group.label for group in groups] == ["learning rate 0.1; 2 runs", "learning rate 0.2"]
    assert [len(group.runs) for group in groups] == [2, 1]
    assert [group.label for group in grouped(runs[:2])] == ["a, b; 2 runs"]
    run = runs[0]  # what a resumed run may change makes no other group
    names = {one.name for one in dataclasses.fields(Config)}  # others are of imitation
    moved = dataclasses.replace(
        run, config=run.config | dict.fromkeys(_CHANGEABLE & names, "other")
    )
    assert len(grouped([run, moved])) == 1
    bare = [dataclasses.replace(run, config={}) for run in runs]
    assert [group.label for group in grouped(bare)] == ["a", "b", "c"]
    with styled():
        figure = draw_runs(runs)
        assert not faults(figure)
    assert figure
    held_out, training = figure.axes[:2]
    one, two, mean, other = held_out.lines
    assert [line.get_ydata()[0] for line in (one, two, mean, other)] == [2, 4, 3, 7]
    (band,) = held_out.collections
    assert band.get_datalim(held_out.transData).intervaly.tolist() == [2, 4]
    assert len(training.lines[2].get_xdata()) == 20, "the mean ends where a run ends"
    assert len(training.lines[0].get_xdata()) == 30


def test_runs_with_equal_folder_names_get_separate_folders(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "later" / run.name
    shutil.copytree(run, other)
    written = plot([run, other], tmp_path / "out", formats=["svg"])
    assert len(set(written.files)) == len(written.files)
    folders = {file.parent for file in written.files}
    assert {folder.name for folder in folders} == {"out", run.name}
    assert len(folders) == 3
    assert tmp_path / "out" / "runs.svg" in written.files


def test_bars_are_the_means_of_the_summaries(results: Path) -> None:
    summaries = read_evaluations([FolderContents(results)]).summaries
    assert list(summaries) == list(AGENTS)
    told = json.loads((results / "evaluation.json").read_text())["agents"]["floor"]["summary"]
    name, mean = next(iter(told["by_weakness"].items()))
    error = told["errors"].get(f"by_weakness.{name}")
    wanted = MeanBar(mean, error, told["tasks_by_weakness"][name])
    assert by_weakness(summaries)["floor"][name] == wanted
    with styled():
        figure = draw_bars({"a": {"reward": MeanBar(3.0, 1.0, 4)}}, "title")
    assert figure
    assert [one.get_height() for one in figure.axes[0].patches] == [3.0]


def test_what_is_left_out_of_the_figures_is_told(
    run: Path, results: Path, tmp_path: Path, capsys: Capsys
) -> None:
    """The viewer's tests say what is damaged."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write("{")
    folder = tmp_path / "copy"
    shutil.copytree(results, folder)
    with (folder / "episodes.jsonl").open("a") as file:
        file.write("{")
    assert main(["plot", str(run), str(folder), "--out", str(tmp_path), "--format", "svg"]) == 0
    told = capsys.readouterr().err
    assert "metrics.jsonl, line 61 is left out" in told
    assert "The last line of episodes.jsonl is incomplete" in told


def test_figures_that_cannot_be_drawn_are_an_error_in_one_line(run: Path, capsys: Capsys) -> None:
    write_lines(run / "metrics.jsonl", [{"step": n, "reward": 1e308} for n in range(3)])
    assert main(["plot", str(run), "--format", "svg"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected values that can be drawn" in line


def test_evaluations_are_drawn_together(results: Path, tmp_path: Path) -> None:
    other = evaluate(tmp_path / "other", ("noop",), 2)
    for name in ("settings.json", "evaluation.json"):
        told = json.loads((other / name).read_text())
        (other / name).write_text(json.dumps({**told, "judge": "gemini"}))
    read = read_evaluations([FolderContents(results), FolderContents(other)])
    others = tuple(agent for agent in AGENTS if agent != "noop")
    assert set(read.summaries) == {"noop (scripted)", "noop (other)", *others}
    assert read.note == "The evaluations differ in: judge."
    assert read.title == "ResumeEditMini-v0, judge: rubric / gemini"
    with pytest.raises(TaskError, match="--out: expected a folder"):
        plot([results, other])


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "expected the folder of a run .* is neither"),
        ({"metrics.jsonl": ""}, "has not finished a step"),
        ({"metrics.jsonl": "\udcff\n"}, r"not finished a step yet; .*metrics.jsonl, line 1"),
        ({**STEP, "before.json": '{"reward": "1"}'}, "reward: expected a finite number, got '1'"),
        ({**STEP, "floor.json": '{"by_weakness": 1}'}, "by_weakness: expected an object, got 1"),
        ({"episodes.jsonl": ""}, "expected an evaluation.json with graded episodes"),
    ],
)
def test_folders_that_are_not_runs_are_named(
    files: dict[str, str], told: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(TaskError, match=told):
        plot([tmp_path])


def test_the_command_lists_the_files_it_writes(
    run: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(mpl.rcParams)
    monkeypatch.chdir(run.parent)
    assert main(["plot", run.name, "--format", "svg"]) == 0
    assert dict(mpl.rcParams) == before
    out, err = capsys.readouterr()
    assert out.startswith(f"{run.name}/plots/training.svg\n")
    assert {Path(line).name for line in out.split()} == {f.name for f in (run / "plots").iterdir()}
    assert err == ""
    for when in ("before", "after"):
        (run / f"{when}.json").unlink()
    assert main(["plot", str(run), "--out", str(tmp_path / "out"), "--format", "png"]) == 0
    out, err = capsys.readouterr()
    assert [Path(line).name for line in out.split()] == ["training.png", "trainer.png"]
    assert err.startswith("nothing to draw for: ")
    assert main(["plot", str(run), "--format", "png,gif"]) == 2
    assert "--format: expected some of png, svg; got 'gif'" in capsys.readouterr().err


def test_alarms_are_marked_where_they_begin_with_their_names() -> None:
    metrics = short(20)
    for step in (7, 8, 9, 15):
        metrics[step - 1]["alarm_joint_fall"] = 1.0
    metrics[14] |= {"alarm_opener": 1.0, "rolled_back_to": 10}
    with styled():
        marked, plain = (draw_panels(rows, OVERVIEW, "run") for rows in (metrics, short(20)))
        assert marked
        assert plain
        assert not faults(marked)
    told = "step 7, joint fall; step 15, joint fall and opener and rolled back to step 10."
    assert told in " ".join(text.get_text().replace("\n", " ") for text in texts(marked))
    lines = [len(one.axes[0].lines) for one in (marked, plain)]
    assert lines[0] - lines[1] == 2

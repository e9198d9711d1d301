// Page of an episode: facts, group, task, grades, turns and document.

async function episodePage(number) {
  const detail = await loadEpisode(number);
  const row = index.episodes[number];
  const around = sorted(matching(lastQuery), lastQuery);
  const at = around.indexOf(row);
  const group = groupOf(row);
  const next = group[(group.indexOf(row) + 1) % group.length];
  const [earlier, later] = [around[at - 1], around[at + 1]];
  const keys = {
    j: later && (() => go("episode/" + later.number)),
    k: earlier && (() => go("episode/" + earlier.number)),
    n: () => moveFocus(".turn", 1),
    p: () => moveFocus(".turn", -1),
    c: group.length > 1 && (() => go(`compare/${number}/${next.number}`)),
  };
  const content = [
    h(
      "div.row",
      backLink(),
      earlier && link("Previous", earlier),
      later && link("Next", later),
      around.length < 2 || at < 0 ? null : h("span.muted", `${at + 1} of ${around.length}`),
      download(number),
    ),
    h("h1", "Episode: ", row.task),
    headline(row, detail),
    notes(detail.notes),
    detail.failure ? notes(["It could not be graded: " + detail.failure]) : null,
    groupPart(row, group),
    taskPart(detail.task, index.system_prompts[row.env]),
    h("div.beside", h("div", ledger(detail)), h("div", turnsPart(detail), verdict(detail))),
    documentParts(detail),
  ];
  return { content, keys };
}

// Link to the record of the episode; an exported file has no records.
function download(number) {
  const attributes = { href: `record/${number}.json`, download: `${index.name}-${number}.json` };
  return isExported ? null : h("a", attributes, "Download (JSON)");
}

const backLink = () => h("a", { href: "#/episodes?" + lastQuery }, "‹ Episodes");
const link = (title, row) => h("a", { href: "#/episode/" + row.number }, title);
const rewardOf = (row) => (known(row.reward) ? signed(row.reward) : "not graded");

function turnsPart(detail) {
  const all = detail.turns.map((one, place) => turn(one, "turn-" + (place + 1), place));
  return [h("h2", "Turns"), all.length ? all : h("p", "It took no turn.")];
}

function headline(row, detail) {
  const facts = factList([
    ["reward", rewardOf(row)],
    ["score", known(row.score) ? fixed(row.score, 1) + " of 100" : null],
    ["outcome", row.outcome],
    ["environment", row.env],
    ["weakness", words(row.weakness)],
    ["played by", row.agent],
    ["step", row.step],
    ["rollout", row.member],
    ["turns", row.turns + (detail.rules.max_turns ? " of " + detail.rules.max_turns : "")],
    ["lines", known(row.lines) ? row.lines + " of " + row.page_lines : null],
  ]);
  const chips = row.flags.map((one) => h("span.chip" + flagTone(one), one));
  return [facts, chips.length ? h("p", chips) : null];
}

// Links to the other episodes of the group, and to a comparison with each.
function groupPart(row, group, other = null) {
  if (group.length < 2) return null;
  const members = group.map((one) => {
    const name = `${shortName(one)}: ${rewardOf(one)}`;
    if (one === row) return h("b.chip", name, other ? " (A)" : " (this)");
    const href = `#/compare/${row.number}/${one.number}`;
    const compare = h("a", { href, "aria-label": "compare with " + shortName(one) }, "compare");
    return h("span.chip", link(name, one), " ", one === other ? "(B)" : compare);
  });
  const where = index.kind === "run" ? " at this step" : "";
  const summary = h("summary", `${counted(group.length, "episode")} on this task${where}`);
  return h("details", { open: group.length <= 16 }, summary, h("p", members));
}

function taskPart(fields, prompt) {
  const part = (name, ...content) =>
    h("details", h("summary", words(name)), h("div.card", content));
  const now = h("p.muted", "As the environment has it now; records do not hold it.");
  const promptPart = prompt ? part("system prompt", h("pre", prompt), now) : null;
  if (!fields) return promptPart;
  const isShort = ({ value }) => typeof value === "string" && value.length < 60;
  const long = fields.filter((one) => !isShort(one));
  const facts = factList(fields.filter(isShort).map(({ name, value }) => [words(name), value]));
  const parts = long.map(({ name, value }) => part(name, h("pre", asLines(value))));
  return [h("h2", "The task"), facts, h("div.row", parts, promptPart)];
}

"use strict";
// One episode: its facts, its group, its grades, its task, its turns, its document, its tokens.

async function episodePage(number) {
  const detail = await loadEpisode(number);
  const row = index.episodes[number];
  await search(lastQuery.get("text"));
  const around = sorted(matching(lastQuery), lastQuery);
  const at = around.indexOf(row);
  const group = groupOf(row);
  const next = group[(group.indexOf(row) + 1) % group.length];
  const openAt = (place) => around[place] && (() => go("episode/" + around[place].number));
  const keys = {
    j: openAt(at + 1),
    k: at > 0 && openAt(at - 1),
    n: () => toTurn(1),
    p: () => toTurn(-1),
    t: () => document.getElementById("show-tokens")?.click(),
    c: group.length > 1 && (() => go(`compare/${number}/${next.number}`)),
  };
  const content = [
    h(
      "div",
      { class: "row" },
      backLink(),
      link("Previous", around[at - 1]),
      link("Next", around[at + 1]),
      at < 0 ? null : h("span", { class: "muted" }, `${at + 1} of ${around.length}`),
      download(number, detail),
    ),
    h("h1", {}, plain(row.task)),
    headline(row, detail),
    notes(detail.notes),
    detail.failure ? notes(["It could not be graded: " + detail.failure]) : null,
    groupPart(row, group),
    taskPart(detail.task),
    h(
      "div",
      { class: "beside" },
      h("div", {}, ledger(detail)),
      h("div", {}, turnsPart(detail), verdict(detail)),
    ),
    documentParts(detail),
    tokensPart(number, detail),
  ];
  return { content, keys };
}

// The episode as it was recorded; an exported file has its record without tokens.
function download(number, { record }) {
  const href = isExported
    ? URL.createObjectURL(new Blob([JSON.stringify(record)], { type: "application/json" }))
    : `record/${number}.json`;
  return h("a", { href, download: `${index.name}-${number}.json` }, "Download (JSON)");
}

const backLink = () => h("a", { href: "#/episodes?" + lastQuery }, "‹ Episodes");
const link = (title, row) => (row ? h("a", { href: "#/episode/" + row.number }, title) : null);
const rewardOf = (row) => (known(row.reward) ? signed(row.reward) : "not graded");

function turnsPart(detail) {
  const all = detail.turns.map((one, place) => turn(one, "turn-" + (place + 1), place));
  return [h("h2", {}, "Turns"), all.length ? all : h("p", {}, "It took no turn.")];
}

function toTurn(by) {
  const all = [...document.querySelectorAll(".turn")];
  const now = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by];
  if (next) {
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

function headline(row, detail) {
  const facts = [
    ["reward", rewardOf(row)],
    ["score", known(row.score) ? number(row.score, 1) : null],
    ["outcome", row.outcome],
    ["weakness", row.weakness],
    ["played by", row.agent],
    ["step", row.step],
    ["rollout", row.member],
    ["turns", row.turns + (detail.rules.max_turns ? " of " + detail.rules.max_turns : "")],
    ["lines", known(row.lines) ? row.lines + " of " + row.page_lines : null],
  ];
  return [factList(facts), row.flags.length ? h("p", {}, chips(row.flags)) : null];
}

// The episodes that it can be compared with.
function groupPart(row, group) {
  if (group.length < 2) return null;
  const members = group.map((one) => {
    const here = one === row;
    const told = `${shortName(one)}: ${rewardOf(one)}`;
    return h(
      "a",
      { class: "chip", href: "#/episode/" + one.number, "aria-current": here ? "true" : null },
      here ? h("b", {}, plain(told), " (this)") : plain(told),
    );
  });
  const where = index.kind === "run" ? " at this step" : "";
  return h(
    "details",
    { open: group.length <= 16 },
    h("summary", {}, `${group.length} episodes on this task${where}`),
    h("p", {}, members),
    compareForm(row, group, null),
  );
}

// Chooses with which other of its group an episode is compared.
function compareForm(row, group, chosen) {
  const others = group.filter((one) => one !== row);
  const options = others.map((one) =>
    option(one.number, `${shortName(one)} (${rewardOf(one)})`, one === chosen),
  );
  const choose = h("select", { id: "compare-with" }, options);
  const open = () => go(`compare/${row.number}/${choose.value}`);
  return h(
    "div",
    { class: "row" },
    h("label", {}, "Compare with ", choose),
    h("button", { type: "button", onclick: open }, "Compare"),
  );
}

function taskPart(fields) {
  const prompt = systemPrompt();
  if (!fields) return prompt;
  const isShort = ({ value }) => typeof value === "string" && value.length < 60;
  const long = fields.filter((one) => !isShort(one));
  return [
    h("h2", {}, "The task"),
    factList(fields.filter(isShort).map(({ name, value }) => [words(name), value])),
    h(
      "div",
      { class: "row" },
      long.map(({ name, value }) => {
        const inside = h("div", { class: "card" }, valuePart(value));
        return h("details", {}, h("summary", {}, plain(words(name))), inside);
      }),
      prompt,
    ),
  ];
}

function systemPrompt() {
  if (!index.system_prompt) return null;
  const told = "As the environment has it now; records do not hold it.";
  const text = h("pre", {}, plain(index.system_prompt));
  const inside = h("div", { class: "card" }, text, h("p", { class: "muted" }, told));
  return h("details", {}, h("summary", {}, "system prompt"), inside);
}

// Any JSON value.
function valuePart(value) {
  if (typeof value === "string") return h("pre", {}, plain(value));
  if (Array.isArray(value)) {
    return h(
      "ul",
      {},
      value.map((one) => h("li", {}, valuePart(one))),
    );
  }
  if (!isGroup(value)) return h("span", {}, plain(value));
  const entries = Object.entries(value).map(([name, one]) => [
    h("dt", { class: "muted" }, plain(name)),
    h("dd", {}, valuePart(one)),
  ]);
  return h("dl", {}, entries);
}

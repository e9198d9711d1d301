"use strict";
// The overview: curves of a run, figures side by side, the journal.

const PANELS = [
  ["Reward, and its spread", ["reward"]],
  ["The reward's parts", ["tool_syntax", "content", "layout"]],
  ["Score, 0 to 100", ["score"]],
  ["Rates, 0 to 1", ["submit_rate", "layout_pass", "failed_share", "judged"]],
  ["Judge, −1 to +1", /^verdict_/],
  ["Calls an episode", ["turns", "edits", "failed_edits", "malformed"]],
  ["Lines of the final document", ["lines"]],
  ["Entropy, nats a token", ["entropy"]],
  ["Size of the gradient", ["gradient_norm"]],
];

function overviewPage() {
  const run = index.kind === "run";
  return [
    h("h1", {}, run ? "Run " : "Evaluation ", plain(index.name)),
    notes(index.notes),
    leftOut(),
    facts(),
    entrances(),
    run ? curves() : [result(), h("h2", {}, "Rewards"), h("div", { class: "grid" }, histograms())],
    run
      ? h("div", { class: "pair" }, figures("On held-out tasks", index.figures), journal())
      : figures("Figures of each agent", ofAgents()),
    settings(),
  ];
}

const notes = (texts) => texts.map((one) => h("p", { class: "note" }, plain(one)));

function leftOut() {
  if (!isExported) return null;
  const all = index.episodes.length;
  const missing = index.episodes.filter((one) => !one.kept).length;
  const share = missing ? `, and ${missing} of ${all} episodes beyond their row in the table` : "";
  return notes([`An exported file. Left out: log-probabilities of tokens${share}.`]);
}

function facts() {
  const { settings, episodes, metrics } = index;
  const { judge } = settings;
  const told = [
    ["episodes", episodes.length],
    ["tasks", new Set(episodes.map((one) => one.task)).size],
    ["steps", metrics.length || null],
    ["environment", settings.env],
    ["model", settings.model],
    ["judge", isGroup(judge) ? JSON.stringify(judge) : judge],
    ["split", settings.split],
    ["seed", settings.seed],
  ];
  return factList(told);
}

function factList(told) {
  const items = told
    .filter(([, value]) => known(value))
    .map(([name, value]) =>
      h("li", {}, h("span", { class: "muted" }, name + " "), h("b", {}, plain(value))),
    );
  return h("ul", { class: "facts" }, items);
}

// Where to begin to read.
function entrances() {
  if (!index.episodes.length) return null;
  const failed = index.episodes.filter((one) => one.outcome === "not graded").length;
  const ways = [
    ["the table", ""],
    ["the best first", "sort=reward&down=1"],
    ["the worst first", "sort=reward"],
    failed ? [`${failed} not graded`, "outcome=not+graded"] : null,
  ].filter(Boolean);
  const links = ways.map(([title, query]) => h("a", { href: "#/episodes?" + query }, title));
  return h("p", { class: "row" }, h("span", { class: "muted" }, "Read episodes:"), links);
}

function curves() {
  const { metrics } = index;
  if (!metrics.length) return h("p", { class: "muted" }, "No step has ended yet.");
  const numbers = (one) => Object.keys(one).filter((name) => typeof one[name] === "number");
  const names = [...new Set(metrics.flatMap(numbers))];
  const among = (wanted) =>
    wanted instanceof RegExp
      ? names.filter((one) => wanted.test(one))
      : wanted.filter((one) => names.includes(one));
  const panels = PANELS.map(([title, wanted]) => [title, among(wanted)]);
  const drawn = panels.filter(([, some]) => some.length);
  const shown = new Set(["step", "reward_std", ...drawn.flatMap(([, some]) => some)]);
  const rest = names.filter((one) => !shown.has(one));
  return [
    h("h2", {}, "Curves"),
    h(
      "div",
      { class: "grid" },
      drawn.map(([title, some]) => chart(title, some)),
    ),
    rest.length ? otherCurves(rest) : null,
  ];
}

function otherCurves(names) {
  const box = h("details", {}, h("summary", {}, "All other figures (" + names.length + ")"));
  const draw = () =>
    box.append(
      h(
        "div",
        { class: "grid" },
        names.map((one) => chart(words(one), [one])),
      ),
    );
  box.addEventListener("toggle", draw, { once: true }); // drawn when they are wanted
  return box;
}

// The figures of each agent, with those over tasks.
function ofAgents() {
  const { figures: all, statistics } = index;
  const joined = ([name, summary]) => {
    const over_tasks = statistics[name];
    return [name, over_tasks ? { over_tasks, ...summary } : summary];
  };
  return Object.fromEntries(Object.entries(all).map(joined));
}

function journal() {
  if (!index.journal.length) return null;
  const items = index.journal.map((one) => h("li", {}, plain(one)));
  return h("section", {}, h("h2", {}, "Journal"), h("ul", { class: "card journal" }, items));
}

function settings() {
  const told = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const rows = Object.entries(index.settings)
    .filter(([, value]) => known(value))
    .map(([name, value]) => figureRow(name, [h("td", { class: "code" }, plain(told(value)))]));
  return h(
    "details",
    {},
    h("summary", {}, "Settings (" + rows.length + ")"),
    h("div", { class: "scroll card" }, h("table", {}, h("tbody", {}, rows))),
  );
}

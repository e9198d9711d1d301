"use strict";
// The episodes: filtered, sorted, a page of rows at a time. All of its state is in the address.

const ROWS = 50;
const COLUMNS = [
  ["number", "#"],
  ["agent", "agent"],
  ["step", "step"],
  ["task", "task"],
  ["member", "rollout"],
  ["weakness", "weakness"],
  ["outcome", "outcome"],
  ["reward", "reward"],
  ["score", "score"],
  ["turns", "turns"],
  ["edits", "edits"],
  ["failed_edits", "failed edits"],
  ["lines", "lines"],
  ["flags", "flags"],
];
const NUMBERS = [
  "number",
  "step",
  "member",
  "reward",
  "score",
  "turns",
  "edits",
  "failed_edits",
  "lines",
];
const CHOICES = [
  ["agent", "Agent"],
  ["step", "Step"],
  ["weakness", "Weakness"],
  ["outcome", "Outcome"],
  ["flag", "Flag"],
];
let lastQuery = new URLSearchParams(); // of the table, so that an episode leads back to it
let lastEpisode = null; // that was open, so that the table goes on from there

const valuesOf = (episode, name) =>
  name === "flag" ? episode.flags : [String(episode[name] ?? "")];

function matching(query) {
  const text = query.get("text");
  const task = (query.get("task") || "").toLowerCase();
  const bound = (name) => (query.get(name) ? Number(query.get(name)) : null);
  const [least, most] = [bound("least"), bound("most")];
  const wanted = CHOICES.map(([name]) => [name, query.get(name)]).filter(([, value]) => value);
  return index.episodes.filter(
    (one) =>
      wanted.every(([name, value]) => valuesOf(one, name).includes(value)) &&
      (!text || hits.get(text)?.has(one.number)) &&
      (!task || one.task.toLowerCase().includes(task)) &&
      (least === null || (known(one.reward) && one.reward >= least)) &&
      (most === null || (known(one.reward) && one.reward <= most)),
  );
}

function sorted(episodes, query) {
  const name = query.get("sort");
  if (!COLUMNS.some(([one]) => one === name)) return episodes;
  const sign = query.get("down") ? -1 : 1;
  const key = (one) => (name === "flags" ? one.flags.length : one[name]);
  const order = new Intl.Collator("en", { numeric: true });
  return [...episodes].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    // what is missing comes last
    if (!known(left) || !known(right)) return known(right) - known(left) || a.number - b.number;
    const by = typeof left === "number" ? left - right : order.compare(left, right);
    return sign * by || a.number - b.number;
  });
}

const rowKeys = { j: () => step(1), k: () => step(-1) };

async function tablePage(query) {
  lastQuery = query;
  await search(query.get("text"));
  const found = sorted(matching(query), query);
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  const rows = found.slice((page - 1) * ROWS, page * ROWS);
  const columns = COLUMNS.filter(
    ([name]) =>
      name === "number" ||
      index.episodes.some((one) => known(one[name]) && String(one[name]) !== ""),
  );
  const turn = (to) => {
    if (to >= 1 && to <= pages) change({ page: to > 1 ? to : "" });
  };
  const keys = {
    ...rowKeys,
    n: () => turn(page + 1),
    p: () => turn(page - 1),
  };
  const rewards = found.filter((one) => known(one.reward)).map((one) => one.reward);
  const mean = rewards.length
    ? ", mean reward " + fixed(rewards.reduce((a, b) => a + b) / rewards.length, 2)
    : "";
  const unread = query.get("text") ? index.episodes.filter((one) => !one.kept).length : 0;
  const missed = unread ? `; ${unread} that were left out are not searched` : "";
  const told = found.length + " of " + index.episodes.length + " episodes" + mean + missed;
  say(told);
  const pager = () =>
    h(
      "div",
      { class: "row" },
      h(
        "button",
        { type: "button", disabled: page === 1, onclick: () => turn(page - 1) },
        "‹ Previous",
      ),
      h("span", {}, "page " + page + " of " + pages),
      h(
        "button",
        { type: "button", disabled: page === pages, onclick: () => turn(page + 1) },
        "Next ›",
      ),
    );
  const empty = index.episodes.length ? "No episode is like that." : "No episode has ended yet.";
  const content = [
    h("h1", {}, "Episodes"),
    notes(index.notes),
    filters(query),
    h("p", { class: "row", id: "found" }, told),
    pager(),
    rows.length ? table(columns, rows, query) : h("p", {}, empty),
    rows.length > 10 ? pager() : null,
  ];
  return { content, keys };
}

function table(columns, rows, query) {
  const by = query.get("sort") || "number";
  const down = Boolean(query.get("down"));
  const head = columns.map(([name, title]) => {
    const here = by === name;
    const next = () => change({ sort: name, down: here && !down ? "1" : "" });
    const arrow = here ? (down ? "\u00a0↓" : "\u00a0↑") : "";
    return h(
      "th",
      {
        scope: "col",
        role: "columnheader",
        "aria-sort": here ? (down ? "descending" : "ascending") : "none",
        class: NUMBERS.includes(name) ? "number" : null,
      },
      h("button", { type: "button", id: "by-" + name, onclick: next }, title + arrow),
    );
  });
  // the roles are told again because the table becomes a list of cards on a phone
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "episodes", role: "table", "aria-label": "Episodes" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map((one) =>
          h(
            "tr",
            {
              role: "row",
              onclick: (event) => {
                if (!event.target.closest("a")) go("episode/" + one.number);
              },
            },
            columns.map(([name, title]) => tableCell(one, name, title)),
          ),
        ),
      ),
    ),
  );
}

function tableCell(episode, name, title) {
  const wide = ["task", "flags", "agent"].includes(name) ? "wide" : "";
  let content = plain(
    typeof episode[name] === "number" ? number(episode[name]) : (episode[name] ?? "-"),
  );
  if (name === "number") {
    content = [
      h(
        "a",
        { href: "#/episode/" + episode.number, "aria-label": "open episode " + episode.number },
        String(episode.number),
      ),
      episode.kept ? null : h("span", { class: "muted" }, " left out"),
    ];
  }
  if (name === "reward" && known(episode.reward)) content = [h("b", {}, signed(episode.reward))];
  if (name === "score" && known(episode.score)) content = [fixed(episode.score, 1)];
  if (name === "weakness") content = plain(words(episode.weakness));
  if (name === "lines" && known(episode.lines))
    content = [episode.lines + "/" + episode.page_lines];
  if (name === "flags")
    content = episode.flags.length
      ? brieflyFlagged(episode.flags)
      : [h("span", { class: "muted" }, "none")];
  return h(
    "td",
    {
      role: "cell",
      "data-label": title,
      class: [wide, NUMBERS.includes(name) ? "number" : "", name].join(" ").trim(),
    },
    content,
  );
}

const chips = (flags) => flags.map((one) => h("span", { class: "chip bad" }, plain(one)));

// In words: a bad episode has so many that chips would fill the screen.
function brieflyFlagged(flags) {
  const worse = flags.filter((one) => one.startsWith("worse ")).map((one) => one.slice(6));
  const other = flags.filter((one) => !one.startsWith("worse "));
  return plain([...other, worse.length ? "worse: " + worse.join(", ") : []].flat().join(", "));
}

function toRow(number) {
  const opened = document.querySelector(`.episodes a[href="#/episode/${number}"]`);
  if (!opened) return;
  opened.focus({ preventScroll: true });
  opened.closest("tr").scrollIntoView({ block: "center" });
}

// Move the focus from row to row.
function step(by) {
  const links = [...document.querySelectorAll(".episodes tbody a")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  if (next) {
    next.focus();
    next.closest("tr").scrollIntoView({ block: "nearest" });
  }
}

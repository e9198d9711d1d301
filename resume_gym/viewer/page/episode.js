"use strict";
// One episode: its turns, its page, its grades, its tokens; and two of a group side by side.

async function episodePage(number) {
  const [detail, row] = [await loadEpisode(number), index.episodes[number]];
  const around = sorted(matching(lastQuery), lastQuery), at = around.indexOf(row);
  const beside = (by) => around[at + by] && (() => go("episode/" + around[at + by].number));
  const group = groupOf(row), next = group[(group.indexOf(row) + 1) % group.length];
  keysHere = { j: beside(1), k: beside(-1), n: () => toTurn(1), p: () => toTurn(-1), t: () => { const button = document.getElementById("show-tokens"); if (button) button.click(); } };
  if (group.length > 1) keysHere.c = () => go("compare/" + number + "/" + next.number);
  const after = detail.documents.after;
  return [
    h("div", { class: "row" }, h("a", { href: "#/episodes?" + lastQuery }, "‹ Episodes"),
      link("Previous", around[at - 1]), link("Next", around[at + 1]), at < 0 ? null : h("span", { class: "muted" }, (at + 1) + " of " + around.length)),
    h("h1", {}, plain(row.task)),
    headline(row, detail), detail.notes.map((note) => h("p", { class: "note" }, plain(note))),
    detail.failure ? h("p", { class: "note" }, "It could not be graded: ", plain(detail.failure)) : null,
    groupStrip(row, group),
    h("div", { class: "pair" }, h("div", {}, ledger(detail)), h("div", {}, verdict(detail))),
    taskPart(detail.task), h("h2", {}, "Turns"), detail.turns.map(turn), detail.turns.length ? null : h("p", {}, "It took no turn."),
    after.length ? [h("h2", {}, "The page"), pagePart(detail), h("h2", {}, "Original and final"), sides(lines(detail, 0), lines(detail, -1), "original", "final")] : null,
    detail.text ? [h("h2", {}, "Last observation"), h("pre", { class: "card" }, plain(detail.text))] : null,
    tokensPart(number, detail),
  ];
}

const link = (title, row) => (row ? h("a", { href: "#/episode/" + row.number }, title) : null);

function toTurn(by) {
  const all = [...document.querySelectorAll(".turn")];
  const now = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}

function headline(row, detail) {
  const facts = [
    ["reward", known(row.reward) ? signed(row.reward) : "not graded"], ["score", known(row.score) ? number(row.score, 1) : null],
    ["outcome", row.outcome], ["weakness", row.weakness], ["played by", nameOf(row)],
    ["turns", row.turns + (detail.rules.max_turns ? " of " + detail.rules.max_turns : "")],
    ["lines", known(row.lines) ? row.lines + " of " + row.page_lines : null],
  ].filter(([, value]) => known(value));
  return [h("ul", { class: "facts" }, facts.map(([name, value]) => h("li", {}, h("span", { class: "muted" }, name + " "), h("b", {}, plain(value))))), h("p", {}, chips(row.flags))];
}

function groupStrip(row, group) {
  if (group.length < 2) return null;
  const choose = h("select", { id: "compare-with" }, group.filter((one) => one !== row).map((one) => h("option", { value: one.number }, plain(nameOf(one)).map((node) => node.textContent || node), " (" + (known(one.reward) ? signed(one.reward) : "not graded") + ")")));
  const members = group.map((one) => h("a", { class: "chip", href: "#/episode/" + one.number, "aria-current": one === row ? "true" : null, title: nameOf(one) }, one === row ? h("b", {}, known(one.reward) ? signed(one.reward) : "not graded", " (this)") : known(one.reward) ? signed(one.reward) : "not graded"));
  return h("details", { open: group.length <= 16 }, h("summary", {}, group.length + " episodes on this task" + (index.kind === "run" ? " at this step" : "")),
    h("p", {}, members),
    h("div", { class: "row" }, h("label", {}, "Compare with ", choose), h("button", { type: "button", onclick: () => go("compare/" + row.number + "/" + choose.value) }, "Compare")));
}

// --- grades -------------------------------------------------------------------------------------

const tone = (value) => (value > 0 ? "good" : value < 0 ? "bad" : "muted");

const grade = (value) => (Number.isInteger(value) ? signed(value).replace(".00", "") : signed(value));

function ledger(detail) {
  if (!detail.ledger.length) return [h("h2", {}, "Reward"), h("p", {}, detail.turns.some((one) => known(one.reward)) ? "The sum of the turns' rewards, below." : "No ledger is recorded.")];
  const parts = [...new Set(detail.ledger.map((one) => one.part))];
  const body = parts.flatMap((part) => {
    const terms = detail.ledger.filter((one) => one.part === part), sum = terms.reduce((total, one) => total + one.value, 0);
    const own = terms.length === 1 && terms[0].term === part;
    return [h("tr", { class: "title" }, h("th", { scope: "row" }, plain(words(part))), h("td", { class: "number " + tone(sum) }, signed(sum))),
      own ? [] : terms.map((one) => h("tr", {}, h("th", { scope: "row", class: "muted" }, plain(words(one.term))), h("td", { class: "number " + tone(one.value) }, one.value ? signed(one.value) : "0")))];
  });
  const total = detail.graded ? signed(detail.reward) : "not graded";
  return [h("h2", {}, "Reward ledger"), h("table", { class: "figures card ledger" }, h("tbody", {}, body, h("tr", { class: "title" }, h("th", { scope: "row" }, "reward"), h("td", { class: "number" }, h("b", {}, total)))))];
}

function verdict(detail) {
  const title = h("h2", {}, "Verdict");
  if (!detail.verdict) {
    return [title, h("p", {}, !detail.graded ? "No judge has answered yet: this episode has no grade." : detail.ledger.length ? "No judge was asked: the document came back as it was, and the tables grade it." : "There is no judge.")];
  }
  const rows = detail.verdict.fields.map((one) => h("li", {}, h("b", { class: tone(one.value) }, grade(one.value)), " ", h("b", {}, plain(words(one.field))),
    known(one.confidence) ? h("span", { class: "muted" }, " confidence " + brief(one.confidence)) : null,
    known(one.reasons) ? h("div", {}, plain(brief(one.reasons))) : null));
  const other = Object.entries(detail.verdict.other).map(([name, value]) => h("li", {}, h("b", {}, plain(words(name))), " ", plain(brief(value))));
  return [title, h("ul", { class: "card verdict" }, rows, other)];
}

// --- turns --------------------------------------------------------------------------------------

function turn(one, place) {
  const id = "turn-" + (place + 1), result = one.kind === "error" ? "failed: " + words(one.error) : { edit: "edited", shown: "shown", submit: "submitted" }[one.kind] || "";
  const earned = known(one.reward) ? h("span", { class: tone(one.reward) }, signed(one.reward)) : null;
  const title = h("h3", { id }, h("span", {}, place + 1 + ". ", plain(one.tool || (one.kind === "text" ? "action" : "no readable call")), result ? h("span", { class: "muted" }, " " + result) : null), earned);
  const called = Object.entries(one.arguments).map(([name, value]) => h("div", {}, h("span", { class: "muted" }, plain(name)), h("pre", {}, plain(typeof value === "string" ? value : JSON.stringify(value)))));
  const reply = one.kind === "shown" && one.reply.length > 300
    ? h("details", {}, h("summary", {}, "What it was shown"), h("pre", {}, plain(one.reply)))
    : one.kind === "edit" ? diffOf(one.reply) : h("pre", {}, plain(one.reply));
  const raw = one.tool ? h("details", {}, h("summary", {}, "As it was written"), h("pre", {}, plain(one.action))) : h("pre", {}, plain(one.action));
  return h("article", { class: "card turn " + one.kind, tabindex: -1, "aria-labelledby": id },
    title, one.said ? h("pre", { class: "muted" }, plain(one.said)) : null,
    one.kind === "edit" ? null : called, reply, h("p", { class: "muted" }, plain(one.status)), raw);
}

function diffOf(text) {
  const rows = text.split("\n"), body = [];
  for (let at = 0; at < rows.length; at += 1) {
    const [row, next] = [rows[at], rows[at + 1]];
    if (row.startsWith("@@")) body.push(h("span", { class: "line head" }, plain(row)));
    else if (row[0] === "-" && next && next[0] === "+" && (rows[at - 1] || "@")[0] !== "-" && (rows[at + 2] || "@")[0] !== "+") {
      // one line for another: the words that differ are marked
      body.push(...changed(row.slice(1), next.slice(1)));
      at += 1;
    } else body.push(line(row[0] === "-" ? "minus" : "plus", plain(row.slice(1))));
  }
  return h("div", { class: "code diff" }, body);
}

const SIGNS = { minus: "− ", plus: "+ " };
const line = (kind, content) => h("span", { class: "line " + kind }, h("span", { class: "muted" }, SIGNS[kind] || "  "), content);

function changed(before, after) {
  const [old, fresh] = [before, after].map((one) => one.split(/(?<=\s)|(?=\s)/u));
  let head = 0, tail = 0;
  const most = Math.min(old.length, fresh.length);
  while (head < most && old[head] === fresh[head]) head += 1;
  while (tail < most - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const parts = (all) => [all.slice(0, head), all.slice(head, all.length - tail), all.slice(all.length - tail)].map((some) => some.join(""));
  return [["minus", old], ["plus", fresh]].map(([kind, all]) => {
    const [first, middle, last] = parts(all);
    return line(kind, [plain(first), middle ? h("mark", {}, plain(middle)) : null, plain(last)]);
  });
}

// --- documents ----------------------------------------------------------------------------------

const lines = (detail, at) => detail.documents.after.at(at).map((one) => detail.documents.lines[one]);

function pagePart(detail) {
  const after = detail.documents.after, box = h("div", { class: "page", tabindex: 0, role: "region", "aria-label": "The page" });
  const moments = after.map((one, at) => [at, at === 0 ? "before the first turn" : at === after.length - 1 ? "at the end" : "after turn " + at]).filter(([at]) => at === 0 || at === after.length - 1 || String(after[at]) !== String(after[at - 1]));
  const count = h("span", { class: "muted" });
  const draw = (at) => {
    const rows = pageRows(detail, at), room = detail.rules.page_lines;
    const items = rows.map(([text, goesOn, isNew], place) => h("li", { "data-row": goesOn ? "·" : place + 1, class: [goesOn ? "goes-on" : "", isNew ? "changed" : "", place >= room ? "over" : ""].join(" ").trim() || null }, plain(text)));
    const room_left = room - rows.length;
    items.splice(room, 0, h("li", { class: "edge" }, "the page ends here: " + room + " lines of " + detail.rules.page_width + " characters" + (room_left > 0 ? ", " + room_left + " to spare" : room_left < 0 ? ", " + -room_left + " over" : "")));
    box.replaceChildren(h("ol", {}, items));
    count.textContent = rows.length + " of " + room + " lines";
  };
  const choose = h("select", { id: "moment", onchange: (event) => { draw(Number(event.target.value)); say(count.textContent); } }, moments.map(([at, title]) => h("option", { value: at, selected: at === after.length - 1 }, title)));
  draw(after.length - 1);
  return [h("div", { class: "row" }, h("label", {}, "Page ", choose), count, h("span", { class: "muted" }, "green: not in the original")), box];
}

// Rows of the page: text, whether it goes on with the row before, whether its line is new.
function pageRows(detail, at) {
  const { after, lines: texts, wrapped } = detail.documents, original = new Set(after[0]);
  const empty = after[at].length === 1 && texts[after[at][0]] === "";
  return empty ? [] : after[at].flatMap((one) => (wrapped[one] || [texts[one]]).map((text, place) => [text, place > 0, !original.has(one)]));
}

// Pairs of equal, replaced, removed and added lines, by longest common subsequence.
function aligned(a, b) {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const old = a.slice(head, a.length - tail), fresh = b.slice(head, b.length - tail), wide = fresh.length + 1;
  const pairs = a.slice(0, head).map((one) => [one, one]);
  // of texts so long that this would take seconds, the middle counts as rewritten
  const best = old.length * fresh.length < 4e6 ? new Uint32Array((old.length + 1) * wide) : null;
  for (let i = old.length - 1; best && i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      best[i * wide + j] = old[i] === fresh[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  let gone = [], came = [], i = 0, j = 0;
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, came.length); at += 1) pairs.push([gone[at], came[at]]);
    gone = []; came = [];
  };
  while (i < old.length || j < fresh.length) {
    if (best && i < old.length && j < fresh.length && old[i] === fresh[j]) { flush(); pairs.push([old[i++], fresh[j++]]); }
    else if (j >= fresh.length || (i < old.length && (!best || best[(i + 1) * wide + j] >= best[i * wide + j + 1]))) gone.push(old[i++]);
    else came.push(fresh[j++]);
  }
  flush();
  return [...pairs, ...a.slice(a.length - tail).map((one) => [one, one])];
}

function sides(left, right, leftName, rightName) {
  const body = [h("h3", {}, SIGNS.minus, plain(leftName)), h("h3", {}, SIGNS.plus, plain(rightName))];
  const blank = () => h("span", { class: "line empty" });
  const pairs = aligned(left, right);
  for (const [a, b] of pairs) {
    if (a === b) body.push(line("same", plain(a)), h("span", { class: "line same twin" }, "  ", plain(a)));
    else if (a !== undefined && b !== undefined) body.push(...changed(a, b));
    else body.push(a === undefined ? blank() : line("minus", plain(a)), b === undefined ? blank() : line("plus", plain(b)));
  }
  const equal = pairs.every(([a, b]) => a === b);
  return [equal ? h("p", {}, "They are equal.") : null, h("div", { class: "card code diff sides" }, body)];
}

function taskPart(fields) {
  if (!fields) return null;
  const shown = (value) => (typeof value === "string" ? h("pre", {}, plain(value)) : Array.isArray(value) ? h("ul", {}, value.map((one) => h("li", {}, shown(one))))
    : value !== null && typeof value === "object" ? h("dl", {}, Object.entries(value).map(([name, one]) => [h("dt", { class: "muted" }, plain(name)), h("dd", {}, shown(one))])) : h("span", {}, plain(value)));
  return [h("h2", {}, "The task"), fields.map(({ name, value }) => (typeof value === "string" && value.length < 60
    ? h("p", {}, h("span", { class: "muted" }, plain(words(name)) , " "), plain(value))
    : h("details", {}, h("summary", {}, plain(words(name))), h("div", { class: "card" }, shown(value)))))];
}

// --- tokens -------------------------------------------------------------------------------------

function tokensPart(number, detail) {
  if (isExported) return h("p", { class: "muted" }, "Log-probabilities of tokens are not in an exported file.");
  if (!detail.has_tokens) return null;
  const box = h("div", { id: "tokens" });
  const button = h("button", { type: "button", id: "show-tokens", onclick: async () => {
    button.disabled = true;
    try { box.replaceChildren(...tokens(await ask("tokens/" + number + ".json")).flat(Infinity)); box.scrollIntoView({ block: "nearest" }); }
    catch (problem) { box.replaceChildren(h("p", { class: "note", role: "alert" }, plain(problem.message))); button.disabled = false; }
  } }, "Show log-probabilities");
  return [h("h2", {}, "Tokens"), button, box];
}

function tokens(all) {
  const text = (at) => (all.texts ? all.texts[at] : String(all.ids[at]) + " ");
  const chance = (at) => Math.exp(all.logprobs[at]);
  const level = (at) => (chance(at) > 0.9 ? "p0" : chance(at) > 0.5 ? "p1" : chance(at) > 0.1 ? "p2" : "p3");
  const sampled = all.ids.map((_, at) => at).filter((at) => all.sampled[at]);
  const spans = all.ids.map((id, at) => h("span", { class: all.sampled[at] ? level(at) : "heard", title: all.sampled[at] ? "log-probability " + number(all.logprobs[at], 3) + ", version " + all.versions[at] + ", token " + id : "not sampled, token " + id }, plain(text(at))));
  const unlikely = [...sampled].sort((a, b) => all.logprobs[a] - all.logprobs[b]).slice(0, 12);
  const rows = unlikely.map((at) => h("tr", {}, h("td", { class: "number" }, String(at)), h("td", { class: "code" }, plain(text(at))), h("td", { class: "number" }, number(all.logprobs[at], 3)), h("td", { class: "number" }, number(100 * chance(at), 1) + " %"), h("td", { class: "number" }, String(all.versions[at]))));
  const mean = sampled.length ? number(sampled.reduce((sum, at) => sum + all.logprobs[at], 0) / sampled.length, 4) : "none";
  return [
    h("p", { class: "muted" }, all.prompt + " tokens of the prompt, then " + all.ids.length + ", of which " + sampled.length + " were sampled; mean log-probability " + mean + ". " + (all.texts ? "" : "The run's tokenizer is not found, so these are numbers. ")),
    h("p", {}, "Shaded: sampled with a probability of at most 90 %, 50 %, 10 % (underlined). Grey: not sampled, the tools' replies."),
    h("pre", { class: "card tokens", tabindex: 0, role: "region", "aria-label": "Tokens" }, spans),
    h("div", { class: "scroll" }, h("table", {}, h("caption", {}, "The least likely tokens that were sampled"), h("thead", {}, h("tr", {}, ["at", "token", "log-probability", "probability", "version"].map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows))),
  ];
}

// --- two of a group -----------------------------------------------------------------------------

async function comparePage(left, right) {
  const details = [await loadEpisode(left), await loadEpisode(right)], rows = [left, right].map((one) => index.episodes[one]);
  const names = rows.map((one, at) => "AB"[at] + ": " + nameOf(one));
  keysHere = { c: () => { const group = groupOf(rows[0]).filter((one) => one !== rows[0]); const next = group[(group.indexOf(rows[1]) + 1) % group.length]; if (next) go("compare/" + left + "/" + next.number); } };
  const terms = [...new Set(details.flatMap((one) => one.ledger.map((term) => term.term)))];
  const worth = (detail, term) => (detail.ledger.find((one) => one.term === term) || { value: 0 }).value;
  const ledgers = terms.map((term) => [term, ...details.map((one) => worth(one, term))]).filter(([, a, b]) => a || b);
  const number_ = (value) => h("td", { class: "number " + tone(value) }, value ? signed(value) : "0");
  const total = rows.map((one) => h("td", { class: "number" }, h("b", {}, known(one.reward) ? signed(one.reward) : "not graded")));
  const reason = (detail, field) => ((detail.verdict || { fields: [] }).fields.find((one) => one.field === field) || {});
  const fields = [...new Set(details.flatMap((one) => (one.verdict || { fields: [] }).fields.map((two) => two.field)))];
  const documents = details.every((one) => one.documents.after.length);
  return [
    h("h1", {}, "Compare: ", plain(rows[0].task)),
    rows[0].task === rows[1].task ? null : h("p", { class: "note" }, "These are episodes on different tasks."),
    h("div", { class: "pair" }, rows.map((one, at) => h("section", { class: "card" }, h("h2", {}, h("a", { href: "#/episode/" + one.number }, plain(names[at]))), headline(one, details[at])))),
    h("h2", {}, "Reward ledger"), h("div", { class: "scroll card" }, h("table", { class: "figures" },
      h("thead", {}, h("tr", {}, h("td", {}), ["A", "B", "A − B"].map((one) => h("th", { scope: "col", class: "number" }, one)))),
      h("tbody", {}, ledgers.map(([term, a, b]) => h("tr", {}, h("th", { scope: "row" }, plain(words(term))), number_(a), number_(b), number_(a - b))),
        h("tr", {}, h("th", { scope: "row" }, "reward"), total, rows.every((one) => known(one.reward)) ? number_(rows[0].reward - rows[1].reward) : h("td", {}))))),
    fields.length ? [h("h2", {}, "Verdicts"), fields.map((field) => h("div", { class: "card pair" }, details.map((one, at) => { const told = reason(one, field); return h("div", {}, h("b", {}, "AB"[at] + " " + words(field) + " "), known(told.value) ? h("b", { class: tone(told.value) }, grade(told.value)) : "not judged", known(told.reasons) ? h("div", {}, plain(brief(told.reasons))) : null); })))] : null,
    documents ? [h("h2", {}, "Final documents"), sides(lines(details[0], -1), lines(details[1], -1), names[0], names[1])] : null,
    h("h2", {}, "Turns"), h("div", { class: "pair" }, details.map((one, at) => h("section", { "aria-label": names[at] }, h("h3", {}, plain(names[at])), one.turns.map((each, place) => { const element = turn(each, place); element.querySelector("h3").id += "AB"[at]; element.setAttribute("aria-labelledby", element.querySelector("h3").id); return element; })))),
  ];
}

start();

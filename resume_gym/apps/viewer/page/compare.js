"use strict";
// Two episodes of a group side by side.

async function comparePage(left, right) {
  const details = [await loadEpisode(left), await loadEpisode(right)];
  const rows = [left, right].map((one) => index.episodes[one]);
  const names = rows.map((one, at) => `${"AB"[at]}: ${nameOf(one)}`);
  const group = groupOf(rows[0]);
  const others = group.filter((one) => one !== rows[0]);
  const next = others[(others.indexOf(rows[1]) + 1) % others.length];
  const hasDocuments = details.every((one) => one.documents.after.length);
  const content = [
    h("div", { class: "row" }, backLink()),
    h("h1", {}, "Compare: ", plain(rows[0].task)),
    rows[0].task === rows[1].task ? null : notes(["These are episodes on different tasks."]),
    h(
      "div",
      { class: "pair" },
      rows.map((row, at) => oneSide(row, details[at], names[at])),
    ),
    others.length ? compareForm(rows[0], group, rows[1]) : null,
    ledgers(rows, details),
    verdicts(details),
    hasDocuments
      ? [
          h("h2", {}, "Final documents"),
          sides(lines(details[0], -1), lines(details[1], -1), ...names),
        ]
      : null,
    h("h2", {}, "Turns"),
    h(
      "div",
      { class: "pair" },
      details.map((one, at) => turnsOf(one, names[at], "AB"[at])),
    ),
  ];
  return { content, keys: { c: next && (() => go(`compare/${left}/${next.number}`)) } };
}

function oneSide(row, detail, name) {
  const title = h("a", { href: "#/episode/" + row.number }, plain(name));
  return h("section", { class: "card" }, h("h2", {}, title), headline(row, detail));
}

// The terms that at least one of the two has.
function ledgers(rows, details) {
  const worth = (detail, term) => detail.ledger.find((one) => one.term === term)?.value ?? 0;
  const terms = new Set(details.flatMap((one) => one.ledger.map((two) => two.term)));
  const body = [...terms]
    .map((term) => [term, ...details.map((one) => worth(one, term))])
    .filter(([, a, b]) => a || b)
    .map(([term, a, b]) => figureRow(words(term), [a, b, a - b].map(amountCell)));
  const [a, b] = rows.map((one) => one.reward);
  const difference = known(a) && known(b) ? amountCell(a - b) : "-";
  const total = figureRow("reward", [...rows.map(rewardOf), difference]);
  total.className = "title";
  const title = "Reward ledger";
  return [h("h2", {}, title), figureTable(title, ["A", "B", "A − B"], [body, total])];
}

function verdicts(details) {
  const fieldsOf = (detail) => detail.verdict?.fields ?? [];
  const names = [...new Set(details.flatMap((one) => fieldsOf(one).map((two) => two.field)))];
  if (!names.length) return null;
  const cards = names.map((name) => {
    const pair = details.map((detail, at) => {
      const found = fieldsOf(detail).find((one) => one.field === name);
      const told = found ? verdictField(found) : [h("b", {}, plain(words(name))), " not judged"];
      return h("div", {}, h("span", { class: "muted" }, "AB"[at] + " "), told);
    });
    return h("div", { class: "card pair" }, pair);
  });
  const fields = details.flatMap(fieldsOf);
  return [h("h2", {}, "Verdicts"), h("p", { class: "muted" }, scaleOf(fields)), cards];
}

function turnsOf(detail, name, letter) {
  const turns = detail.turns.map((one, place) => turn(one, `turn-${place + 1}${letter}`, place));
  return h("section", { "aria-label": name }, h("h3", {}, plain(name)), turns);
}

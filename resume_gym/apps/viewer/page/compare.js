// Two episodes of a group side by side.

async function comparePage(left, right) {
  const details = [await loadEpisode(left), await loadEpisode(right)];
  const rows = [left, right].map((one) => index.episodes[one]);
  const names = rows.map((one, at) => `${"AB"[at]}: ${nameOf(one)}`);
  const group = groupOf(rows[0]);
  const others = group.filter((one) => one !== rows[0]);
  const next = others[(others.indexOf(rows[1]) + 1) % others.length];
  const pair = (part) =>
    h(
      "div.pair",
      rows.map((row, at) => part(row, details[at], names[at], at)),
    );
  const hasDocuments = details.every((one) => one.documents.after.length);
  const content = [
    h("div.row", backLink()),
    h("h1", "Compare: ", rows[0].task),
    rows[0].task === rows[1].task ? null : notes(["These are episodes on different tasks."]),
    pair((row, detail, name) => h("section.card", h("h2", link(name, row)), headline(row, detail))),
    groupPart(rows[0], group, rows[1]),
    ledgers(rows, details),
    verdicts(details),
    hasDocuments ? h("h2", "Final documents") : null,
    hasDocuments ? sides(lines(details[0], -1), lines(details[1], -1), ...names) : null,
    h("h2", "Turns"),
    pair((row, detail, name, at) => {
      const turns = detail.turns.map((one, n) => turn(one, `turn-${n + 1}${"AB"[at]}`, n));
      return h("section", { "aria-label": name }, h("h3", name), turns);
    }),
  ];
  return { content, keys: { c: next && (() => go(`compare/${left}/${next.number}`)) } };
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
  return [h("h2", title), figureTable(title, ["A", "B", "A − B"], [body, total])];
}

function verdicts(details) {
  const fieldsOf = (detail) => detail.verdict?.fields ?? [];
  const all = details.flatMap(fieldsOf);
  const names = [...new Set(all.map((one) => one.field))];
  if (!names.length) return null;
  const cards = names.map((name) => {
    const pair = details.map((detail, at) => {
      const found = fieldsOf(detail).find((one) => one.field === name);
      const field = found ? verdictField(found) : [h("b", words(name)), " not judged"];
      return h("div", h("span.muted", "AB"[at]), " ", field);
    });
    return h("div.card.pair", pair);
  });
  return [h("h2", "Verdicts"), h("p.muted", scaleOf(all)), cards];
}

// Page that compares two episodes side by side.

async function comparePage(left, right) {
  const details = [await loadEpisode(left), await loadEpisode(right)];
  const rows = [left, right].map((one) => index.episodes[one]);
  const names = rows.map((one, at) => `${"AB"[at]}: ${nameOf(one)}`);
  const group = groupOf(rows[0]);
  const others = group.filter((one) => one !== rows[0]);
  const next = others[(others.indexOf(rows[1]) + 1) % others.length];
  const both = (part) => rows.map((row, at) => part(row, details[at], names[at], at));
  const pair = (part) => h("div.pair", both(part));
  const hasDocuments = details.every((one) => one.documents.after.length);
  const content = [
    h("div.row", backLink()),
    h("h1", "Compare: ", rows[0].task),
    rows[0].task === rows[1].task ? null : notes(["These are episodes on different tasks."]),
    pair((row, detail, name) => h("section.card", h("h2", link(name, row)), headline(row, detail))),
    groupPart(rows[0], group, rows[1]),
    pair((row, detail, name) => h("section", h("h3", name), ledger(detail), verdict(detail))),
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

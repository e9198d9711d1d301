"use strict";
// What an episode earned: the ledger and the verdict.

const tone = (value) => (value > 0 ? "good" : value < 0 ? "bad" : "muted");
const amount = (value) => (value ? signed(value) : "0");
const amountCell = (value) => h("td", { class: "number " + tone(value) }, amount(value));
const grade = (value) =>
  Number.isInteger(value) ? amount(value).replace(".00", "") : signed(value);

function ledger(detail) {
  if (!detail.ledger.length) {
    const byTurns = detail.turns.some((one) => known(one.reward));
    const told = byTurns ? "The sum of the turns' rewards." : "No ledger is recorded.";
    return [h("h2", {}, "Reward"), h("p", {}, told)];
  }
  const parts = [...new Set(detail.ledger.map((one) => one.part))];
  const total = known(detail.reward) && detail.graded ? signed(detail.reward) : "not graded";
  const last = figureRow("reward", [h("td", { class: "number" }, h("b", {}, total))]);
  last.className = "title";
  const body = h(
    "tbody",
    {},
    parts.map((part) => ledgerPart(part, detail.ledger)),
    last,
  );
  return [h("h2", {}, "Reward ledger"), h("table", { class: "figures card ledger" }, body)];
}

// The sum of a part of the reward, and the terms that it is made of.
function ledgerPart(part, all) {
  const terms = all.filter((one) => one.part === part);
  const head = figureRow(label(part), [
    amountCell(terms.reduce((total, one) => total + one.value, 0)),
  ]);
  head.className = "title";
  const alone = terms.length === 1 && terms[0].term === part;
  const rows = terms.map((one) => figureRow(words(one.term), [amountCell(one.value)]));
  return alone ? head : [head, rows];
}

function verdict(detail) {
  const title = h("h2", {}, "Verdict");
  if (!detail.verdict) return [title, h("p", {}, whyNoVerdict(detail))];
  const rows = detail.verdict.fields.map((one) => h("li", {}, verdictField(one)));
  const other = Object.entries(detail.verdict.other).map(([name, value]) =>
    h("li", {}, h("b", {}, plain(words(name))), " ", plain(brief(value))),
  );
  return [
    title,
    h("p", { class: "muted" }, scaleOf(detail.verdict.fields)),
    h("ul", { class: "card verdict" }, rows, other),
  ];
}

// The one field that is named after what is bad would be read the wrong way round.
function scaleOf(fields) {
  const named = fields.some((one) => one.field === "hallucination");
  const told = named ? " Hallucination: +1 nothing is made up, −1 something is." : "";
  return "Against the original: +1 better, 0 the same, −1 worse." + told;
}

function verdictField(one) {
  const sure = known(one.confidence) ? ` confidence ${brief(one.confidence)}` : "";
  return [
    h("b", { class: tone(one.value) }, grade(one.value)),
    h("b", {}, " ", plain(words(one.field))),
    h("span", { class: "muted" }, sure),
    known(one.reasons) ? h("div", {}, plain(brief(one.reasons))) : null,
  ];
}

function whyNoVerdict(detail) {
  if (!detail.graded) return "No judge has answered: this episode has no grade.";
  return detail.ledger.length
    ? "No judge was asked: the document came back as it was, and the tables grade it."
    : "There is no judge.";
}

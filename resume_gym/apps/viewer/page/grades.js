// Grades of an episode: the reward ledger and the verdict.

const tone = (value) => (value > 0 ? "good" : value < 0 ? "bad" : "muted");
const amountCell = (value) => h("td.number." + tone(value), signed(value));
const grade = (value) =>
  Number.isInteger(value) ? signed(value).replace(".00", "") : signed(value);

function ledger(detail) {
  if (!detail.ledger.length) {
    const byTurns = detail.turns.some((one) => known(one.reward));
    const why = byTurns ? "The sum of the turns' rewards." : "No ledger is recorded.";
    return [h("h2", "Reward"), h("p", why)];
  }
  const parts = [...new Set(detail.ledger.map((one) => one.part))];
  const total = known(detail.reward) && detail.graded ? signed(detail.reward) : "not graded";
  const last = figureRow("reward", [h("td.number", h("b", total))]);
  last.className = "title";
  const rows = parts.map((part) => ledgerPart(part, detail.ledger));
  const body = h("tbody", rows, last, comparison(detail.comparison));
  return [h("h2", "Reward ledger"), h("table.figures.card.ledger", body)];
}

// Row of what the comparison with the group adds in training; the reward does not include it.
function comparison(value) {
  if (!known(value)) return null;
  return figureRow("comparison with the group, in training", [amountCell(value)]);
}

// Rows of a component of the reward: its sum and its terms.
function ledgerPart(part, all) {
  const terms = all.filter((one) => one.part === part);
  const sum = terms.reduce((total, one) => total + one.value, 0);
  const head = figureRow(label(part).replace("reward from ", ""), [amountCell(sum)]);
  head.className = "title";
  const isAlone = terms.length === 1 && terms[0].term === part;
  const rows = terms.map((one) => figureRow(words(one.term), [amountCell(one.value)]));
  return isAlone ? head : [head, rows];
}

function verdict(detail) {
  const title = h("h2", "Verdict");
  if (!detail.verdict) return [title, h("p", whyNoVerdict(detail))];
  const { fields, other } = detail.verdict;
  const rows = fields.map((one) => h("li", verdictField(one)));
  const rest = Object.entries(other).map(([name, value]) =>
    h("li", h("b", words(name)), " ", brief(value)),
  );
  const list = h("ul.card.verdict", rows, rest);
  return [title, h("p.muted", scaleOf(fields)), list, askedPart(detail.asked)];
}

// Prompts of a model judge, and its answers.
function askedPart(asked) {
  if (!asked.length) return null;
  const one = (name, text) => h("details", h("summary", name), h("pre", text));
  const parts = asked.map(({ kind, system, user, answer, ...cost }) =>
    h(
      "div.card",
      h("h3", words(kind), " ", h("span.muted", costOf(cost))),
      h("div.row", one("instructions", system), one("question", user), one("answer", answer)),
    ),
  );
  return h("details", h("summary", `Prompts and answers of the judge (${asked.length})`), parts);
}

// Recorded tokens and seconds as text; an answer from a store has none.
function costOf({ tokens_in: read, tokens_out: written, seconds }) {
  const input = read && counted(read, "token") + " read";
  const output = written && counted(written, "token") + " written";
  return [input, output, seconds && number(seconds) + " s"].filter(Boolean).join(", ");
}

// The only field named after a fault needs an explanation of its scale.
function scaleOf(fields) {
  const isNamed = fields.some((one) => one.field === "hallucination");
  const scale = isNamed ? " Hallucination: +1 nothing is made up, −1 something is." : "";
  return "Against the original: +1 better, 0 the same, −1 worse." + scale;
}

function verdictField({ field, value, confidence, reasons }) {
  return [
    h("b." + tone(value), grade(value)),
    h("b", " ", words(field)),
    known(confidence) ? h("span.muted", ` confidence ${brief(confidence)}`) : null,
    known(reasons) ? h("div", brief(reasons)) : null,
  ];
}

function whyNoVerdict(detail) {
  if (!detail.graded) return "No judge has answered: this episode has no grade.";
  return detail.ledger.length
    ? "No judge was asked: the document is unchanged, and the reward tables grade it."
    : "There is no judge.";
}

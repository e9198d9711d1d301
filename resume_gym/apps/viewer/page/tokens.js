// The tokens of an episode with their log-probabilities, when they are asked for.

const LEAST_LIKELY = 12; // rows of the table

function tokensPart(number, detail) {
  if (!detail.has_tokens) return null;
  const title = h("h2", "Tokens");
  if (isExported)
    return [title, h("p.muted", "Log-probabilities of tokens are not in an exported file.")];
  const box = h("div", { id: "tokens" });
  const load = async () => {
    button.disabled = true;
    try {
      box.replaceChildren(...tokenParts(await ask(`tokens/${number}.json`)));
      title.scrollIntoView();
    } catch (problem) {
      box.replaceChildren(alarm(problem));
      button.disabled = false;
    }
  };
  const attributes = { type: "button", id: "show-tokens", onclick: load };
  const button = h("button", attributes, "Show log-probabilities");
  return [title, button, box];
}

function tokenParts({ prompt, ids, texts, sampled, logprobs, versions }) {
  const all = ids.map((id, at) => ({
    id,
    at,
    text: texts ? texts[at] : id + " ",
    sampled: sampled[at],
    logprob: logprobs[at],
    version: versions[at],
  }));
  const drawn = all.filter((one) => one.sampled);
  const sum = drawn.reduce((total, one) => total + one.logprob, 0);
  const mean = drawn.length ? number(sum / drawn.length, 4) : "none";
  const counts =
    `${prompt} tokens of the prompt, then ${ids.length}, of which ${drawn.length} were ` +
    `sampled; mean log-probability ${mean}.` +
    (texts ? "" : " The run's tokenizer is not found, so these are numbers.");
  const shades = ["90 %", "50 %", "10 %"].map((one, at) => [" ", h(`span.p${at + 1}`, one)]);
  const before = "Shaded: sampled with a probability of at most";
  const after = ". Grey: not sampled, the tools' replies.";
  const region = { tabindex: 0, role: "region", "aria-label": "Tokens" };
  return [
    h("p.muted", counts),
    h("p.shades", before, shades, after),
    h("pre.card.tokens", region, all.map(tokenSpan)),
    ...unlikely(drawn),
  ];
}

const chance = (token) => Math.exp(token.logprob);

function tokenSpan(token) {
  const { id, text, sampled, version } = token;
  if (!sampled) return h("span.heard", { title: "not sampled, token " + id }, text);
  const level = [0.9, 0.5, 0.1].filter((limit) => chance(token) <= limit).length;
  const logprob = number(token.logprob, 3);
  const title = `log-probability ${logprob}, version ${version}, token ${id}`;
  return h("span.p" + level, { title }, text);
}

function unlikely(drawn) {
  const some = [...drawn].sort((a, b) => a.logprob - b.logprob).slice(0, LEAST_LIKELY);
  const rows = some.map((one) => {
    const share = number(100 * chance(one), 1) + " %";
    return figureRow(one.at, [h("td.code", one.text), number(one.logprob, 3), share, one.version]);
  });
  const title = "The least likely tokens that were sampled";
  const heads = ["token", "log-probability", "probability", "version"];
  return [h("h3", title), figureTable(title, heads, rows)];
}

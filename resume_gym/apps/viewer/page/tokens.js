"use strict";
// The tokens of an episode with their log-probabilities, when they are asked for.

const LEAST_LIKELY = 12; // rows of the table

function tokensPart(number, detail) {
  if (!detail.has_tokens) return null;
  const title = h("h2", {}, "Tokens");
  if (isExported) {
    const told = "Log-probabilities of tokens are not in an exported file.";
    return [title, h("p", { class: "muted" }, told)];
  }
  const box = h("div", { id: "tokens" });
  const load = async () => {
    button.disabled = true;
    try {
      const tokens = await ask(`tokens/${number}.json`);
      box.replaceChildren(...tokenParts(tokens));
      title.scrollIntoView();
    } catch (problem) {
      box.replaceChildren(h("p", { class: "note", role: "alert" }, plain(problem.message)));
      button.disabled = false;
    }
  };
  const button = h(
    "button",
    { type: "button", id: "show-tokens", onclick: load },
    "Show log-probabilities",
  );
  return [title, button, box];
}

function tokenParts(tokens) {
  const { ids, texts, sampled, logprobs, versions } = tokens;
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
  const told =
    `${tokens.prompt} tokens of the prompt, then ${ids.length}, of which ${drawn.length} were ` +
    `sampled; mean log-probability ${mean}.` +
    (texts ? "" : " The run's tokenizer is not found, so these are numbers.");
  const shades = ["90 %", "50 %", "10 %"].map((one, at) => [
    at ? ", " : null,
    h("span", { class: "p" + (at + 1) }, one),
  ]);
  return [
    h("p", { class: "muted" }, told),
    h(
      "p",
      { class: "shades" },
      "Shaded: sampled with a probability of at most ",
      shades,
      ". Grey: not sampled, the tools' replies.",
    ),
    h(
      "pre",
      { class: "card tokens", tabindex: 0, role: "region", "aria-label": "Tokens" },
      all.map(tokenSpan),
    ),
    unlikely(drawn),
  ];
}

const chance = (token) => Math.exp(token.logprob);

function tokenSpan(token) {
  if (!token.sampled) {
    return h(
      "span",
      { class: "heard", title: "not sampled, token " + token.id },
      plain(token.text),
    );
  }
  const level = [0.9, 0.5, 0.1].filter((limit) => chance(token) <= limit).length;
  const logprob = number(token.logprob, 3);
  const title = `log-probability ${logprob}, version ${token.version}, token ${token.id}`;
  return h("span", { class: "p" + level, title }, plain(token.text));
}

function unlikely(drawn) {
  const rows = [...drawn]
    .sort((a, b) => a.logprob - b.logprob)
    .slice(0, LEAST_LIKELY)
    .map((one) => {
      const figures = [number(one.logprob, 3), number(100 * chance(one), 1) + " %", one.version];
      return h(
        "tr",
        {},
        h("td", { class: "number" }, one.at),
        h("td", { class: "code" }, plain(one.text)),
        figures.map((figure) => h("td", { class: "number" }, figure)),
      );
    });
  const heads = ["at", "token", "log-probability", "probability", "version"];
  const title = "The least likely tokens that were sampled";
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    h(
      "table",
      {},
      h("caption", {}, title),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((one) => h("th", { scope: "col" }, one)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

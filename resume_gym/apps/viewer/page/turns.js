"use strict";
// The turns of an episode.

const RESULTS = new Map([
  ["edit", "edited"],
  ["shown", "document shown"],
  ["submit", "submitted"],
]);
const LONG_REPLY = 300; // characters; longer ones are opened when they are wanted

// An action and its reply; `id` names its heading.
function turn(one, id, place) {
  const result = one.kind === "error" ? "failed: " + words(one.error) : RESULTS.get(one.kind);
  const action = one.tool || (one.kind === "text" ? "action" : "no readable call");
  const name = h(
    "span",
    {},
    `${place + 1}. `,
    plain(action),
    result ? h("span", { class: "muted" }, " " + result) : null,
  );
  const earned = known(one.reward)
    ? h("span", { class: tone(one.reward) }, signed(one.reward))
    : null;
  const written = h("pre", {}, plain(one.action));
  return h(
    "article",
    { class: "card turn " + one.kind, tabindex: -1, "aria-labelledby": id },
    h("h3", { id }, name, earned),
    one.said ? h("pre", { class: "muted" }, plain(one.said)) : null,
    one.tool ? null : written,
    one.kind === "edit" ? null : callPart(one.arguments),
    replyPart(one),
    h(
      "div",
      { class: "row" },
      one.status ? h("span", { class: "muted" }, plain(one.status)) : null,
      one.tool ? h("details", {}, h("summary", {}, "as it was written"), written) : null,
    ),
  );
}

// The arguments of a call, on a ground that shows spaces at their ends.
function callPart(call) {
  const rows = Object.entries(call).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const shown = text ? h("code", {}, plain(text)) : h("span", { class: "muted" }, "(empty)");
    return [h("dt", { class: "muted" }, plain(name)), h("dd", {}, shown)];
  });
  return rows.length ? h("dl", { class: "call" }, rows) : null;
}

function replyPart({ kind, reply }) {
  if (kind === "edit") return diffOf(reply);
  const text = h("pre", { class: kind === "error" ? "bad" : null }, plain(reply));
  if (kind === "submit" || !reply) return null; // the heading says it
  return kind === "shown" && reply.length > LONG_REPLY
    ? h("details", {}, h("summary", {}, "What it was shown"), text)
    : text;
}

// The turns of an episode.

const RESULTS = new Map([
  ["edit", "edited"],
  ["shown", "document shown"],
  ["submit", "submitted"],
]);
const LONG_REPLY = 300; // characters; longer documents are collapsed

// An action and its reply; `id` is the ID of the heading.
function turn(one, id, place) {
  const result = one.kind === "error" ? "failed: " + words(one.error) : RESULTS.get(one.kind);
  const action = one.tool || (one.kind === "text" ? "action" : "no readable call");
  const name = h("span", `${place + 1}. `, action, result ? h("span.muted", " ", result) : null);
  const earned = known(one.reward) ? h("span." + tone(one.reward), signed(one.reward)) : null;
  const written = h("pre", one.action);
  return h(
    "article.card.turn." + one.kind,
    { tabindex: -1, "aria-labelledby": id },
    h("h3", { id }, name, earned),
    one.said ? h("pre.muted", one.said) : null,
    one.tool ? null : written,
    one.kind === "edit" ? null : callPart(one.arguments),
    replyPart(one),
    h(
      "div.row",
      h("span.muted", [one.status, changeOf(one), costOf(one)].filter(Boolean).join(" | ")),
      one.tool ? h("details", h("summary", "as it was written"), written) : null,
    ),
  );
}

const changeOf = ({ change }) => known(change) && `worth of the document: ${signed(change)}`;

// Arguments of a call; their background shows leading and trailing spaces.
function callPart(call) {
  const rows = Object.entries(call).map(([name, value]) => {
    const text = asText(value);
    return [h("dt.muted", name), h("dd", text ? h("code", text) : h("span.muted", "(empty)"))];
  });
  return rows.length ? h("dl.call", rows) : null;
}

function replyPart({ kind, reply }) {
  if (kind === "edit") return diffOf(reply);
  if (kind === "submit" || !reply) return null; // the heading shows it
  const text = h(kind === "error" ? "pre.bad" : "pre", reply);
  const isLong = kind === "shown" && reply.length > LONG_REPLY;
  return isLong ? h("details", h("summary", "What it was shown"), text) : text;
}

function toTurn(number) {
  const found = document.getElementById("turn-" + number)?.closest(".turn");
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: "center" });
}

"use strict";
// Keys, and the first page.

const KEYS = [
  ["0", "all runs"],
  ["1", "overview"],
  ["2", "episodes"],
  ["/", "filter the episodes by task"],
  ["j k", "next, previous episode (in the table: row)"],
  ["Enter", "open the row"],
  ["n p", "next, previous turn (in the table: page)"],
  ["c", "compare with the next of the group"],
  ["t", "tokens of the episode"],
  ["u", "back to the table"],
  ["?", "this help"],
];
const help = document.getElementById("help");

function toFilter() {
  const box = document.getElementById("filter-task");
  if (box) box.focus();
  else {
    // the page is there when this is heard: `show` listens, too, and did so first
    window.addEventListener("hashchange", () => requestAnimationFrame(toFilter), { once: true });
    go("episodes", lastQuery);
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const anywhere = {
    0: () => index.listed && location.assign("../"),
    1: () => go(""),
    2: () => go("episodes"),
    u: () => go("episodes", lastQuery),
    "?": () => help.showModal(),
    "/": toFilter,
  };
  const act = keysHere[event.key] || anywhere[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
}

async function start() {
  document.getElementById("keys").append(
    ...KEYS.flatMap(([keys, does]) => [
      h(
        "dt",
        {},
        keys.split(" ").map((key) => [h("kbd", {}, key), " "]),
      ),
      h("dd", {}, does),
    ]),
  );
  document.getElementById("help-button").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", onKey);
  // the link to the content must not be taken for a page
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  try {
    await loadIndex();
  } catch (problem) {
    document
      .getElementById("loading")
      .replaceWith(h("p", { class: "note", role: "alert" }, plain(problem.message)));
    return;
  }
  header();
  window.addEventListener("hashchange", () => show());
  await show();
  if (!isExported) follow();
}

start();

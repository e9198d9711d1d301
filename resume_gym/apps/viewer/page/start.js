// Keyboard shortcuts, and the start of the page.

const help = document.getElementById("help");

function toFilter() {
  const box = document.querySelector("#filter-task, #search-text");
  if (box) box.focus();
  else go("episodes", lastQuery);
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
    3: () => go("search"),
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
  document.getElementById("help-button").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", onKey);
  // the hash of the skip link is not the address of a page
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  try {
    await loadIndex();
  } catch (problem) {
    main.replaceChildren(alarm(problem));
    return;
  }
  document.getElementById("name").append(...visible(index.name));
  document.getElementById("to-list").hidden = !index.listed;
  document.getElementById("pages").hidden = index.kind === "list";
  document.getElementById("to-search").hidden = isExported; // there is no server
  window.addEventListener("hashchange", () => show());
  await show();
  if (!isExported) follow();
}

document.addEventListener("DOMContentLoaded", start);

// Follows a running job, and keeps the reader's position.

const POLL = 3000; // milliseconds between two polls for changes

function follow() {
  const live = document.getElementById("live");
  setTimeout(async () => {
    try {
      if (!document.hidden && (await refresh())) {
        live.textContent = "updated " + new Date().toLocaleTimeString();
      }
    } catch {
      live.textContent = "no answer from the server";
    }
    follow();
  }, POLL);
}

// Loads new data; returns whether there were any.
async function refresh() {
  if (!getSelection().isCollapsed) return false; // a redraw would clear the selection
  if ((await ask("version.json")) === index.version) return false;
  await loadIndex();
  cache.clear();
  // episodes on display have ended, so they need no redraw; a search is made when it is asked for
  if (!["episode", "compare", "search"].includes(place().path[0])) await keeping(() => show(true));
  return true;
}

// Redraws the page; keeps open details, scroll position, focus and typed text.
async function keeping(draw) {
  const before = document.activeElement;
  const [left, top] = [scrollX, scrollY];
  const opened = [...main.querySelectorAll("details[open] > summary")].map(
    (one) => one.textContent,
  );
  await draw();
  for (const summary of main.querySelectorAll("summary")) {
    if (!opened.includes(summary.textContent) || summary.parentNode.open) continue;
    summary.parentNode.open = true;
    summary.parentNode.dispatchEvent(new Event("toggle")); // the browser's own event comes too late
  }
  window.scrollTo({ left, top, behavior: "instant" });
  const again = main.querySelector(selectorOf(before));
  if (!again || again === before) return;
  again.focus({ preventScroll: true });
  if (again.matches("input")) again.value = before.value;
  if (again.type === "search") again.setSelectionRange(before.selectionStart, before.selectionEnd);
}

// Selector that finds an element again after a redraw.
function selectorOf(element) {
  const href = element.getAttribute("href");
  if (element.id) return "#" + CSS.escape(element.id);
  return href ? `a[href="${CSS.escape(href)}"]` : ":not(*)";
}

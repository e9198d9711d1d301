// A job that still runs: the page follows it, and stays where its reader is.

const POLL = 3000; // milliseconds between two questions whether something has changed

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

// True if there was anything new.
async function refresh() {
  if (!getSelection().isCollapsed) return false; // a new page would end a selection
  if ((await ask("version.json")) === index.version) return false;
  await loadIndex();
  cache.clear();
  // an episode that is shown has ended; what is new shows on the way to another
  if (!["episode", "compare"].includes(place().path[0])) await keeping(() => show(true));
  return true;
}

// Draws again; what is open, scrolled to, in focus or being written stays so.
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
    summary.parentNode.dispatchEvent(new Event("toggle")); // the browser's own comes too late
  }
  window.scrollTo({ left, top, behavior: "instant" });
  const again = main.querySelector(selectorOf(before));
  if (!again || again === before) return;
  again.focus({ preventScroll: true });
  if (again.matches("input")) again.value = before.value;
  if (again.type === "search") again.setSelectionRange(before.selectionStart, before.selectionEnd);
}

// Finds an element in the page that is drawn next.
function selectorOf(element) {
  const href = element.getAttribute("href");
  if (element.id) return "#" + CSS.escape(element.id);
  return href ? `a[href="${CSS.escape(href)}"]` : ":not(*)";
}

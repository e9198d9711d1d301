"use strict";
// Episodes that contain a text: the server reads them, in an exported file the page does.

const hits = new Map(); // numbers of episodes, by the text that they contain

async function search(text) {
  if (!text || hits.has(text)) return;
  const path = "search.json?" + new URLSearchParams({ text });
  hits.set(text, new Set(await (isExported ? searchFile(text.toLowerCase()) : ask(path))));
}

async function searchFile(wanted) {
  const found = [];
  for (const chunk of new Set(index.chunks.filter(known))) {
    for (const [number, { record }] of Object.entries(await unpack("chunk-" + chunk))) {
      const { text, actions, observations = [] } = record;
      const parts = [text, ...actions, ...observations];
      if (parts.some((one) => String(one).toLowerCase().includes(wanted)))
        found.push(Number(number));
    }
  }
  return found;
}

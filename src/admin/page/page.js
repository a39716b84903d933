// Keeps the page live: whatever section the server sends takes the place of the one that stands there. The server draws
// everything, so without this script the page is the same, only still.
"use strict";

const byId = (id) => document.getElementById(id);
const state = byId("state");
const freeze = byId("freeze");
const theme = byId("theme");

// ── theme: the system's unless chosen; the choice stays in this browser ──
const stored = () => { try { return localStorage.getItem("theme") || ""; } catch { return ""; } };
function dress(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}
theme.value = stored();
dress(theme.value);
theme.addEventListener("change", () => {
  dress(theme.value);
  try { localStorage.setItem("theme", theme.value); } catch { /* not allowed here: it holds until the page is closed */ }
});

// ── putting in place ──
// Elements that stay are kept, so that focus, selection and scrolled boxes are; rows are known by their name.
const nameOf = (node) => node.dataset && node.dataset.name;

function adopt(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || nameOf(old) !== nameOf(fresh)) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // whether an explanation is open is the reader's own
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  fill(old, fresh);
}

function fill(old, fresh) {
  const known = new Map();
  for (const child of old.children) if (nameOf(child)) known.set(nameOf(child), child);
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, index) => {
    const there = old.childNodes[index];
    const same = nameOf(node) && known.get(nameOf(node));
    if (same && same !== there) {
      old.insertBefore(same, there || null);
      adopt(same, node);
    } else if (there) {
      adopt(there, node);
    } else {
      old.append(node);
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function place(id, html) {
  const there = byId(id);
  if (!there) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  fill(there, fresh.content);
}

// ── what buttons do: copy a command, or give its order where this address takes orders ──
document.documentElement.classList.add("scripts");
const told = byId("told");
// of a row, by its name: the command, and the order
const VERBS = {
  explain: (name) => [`explain --client ${name}`],
  ban: (name) => [`ban ${name} --for 1h`, "ban", { target: name, for_seconds: 3600, by: "page" }],
  pardon: (name) => [`pardon ${name}`, "pardon", { client: name }],
  unban: (name) => [`unban ${name}`, "unban", { target: name }],
};
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy], [data-order], [data-verb]");
  if (!button) return;
  const { copy, order, body, verb, acts } = button.dataset;
  let command = copy || button.dataset.command, path = order, wanted = body;
  if (verb) {
    const [words, does, asks] = VERBS[verb](button.closest("[data-name]").dataset.name.split(" ")[0]);
    command = `sudo tidegate ${words}`;
    if (acts !== undefined) [path, wanted] = [`api/v1/${does}`, JSON.stringify(asks)];
  }
  if (!path) {
    const word = button.textContent;
    const copied = await navigator.clipboard?.writeText(command).then(() => true, () => false);
    // where that is not allowed the command is shown
    if (!copied) told.textContent = command;
    button.textContent = copied ? "Copied" : "See above";
    setTimeout(() => { button.textContent = word; }, 1500);
  } else if (confirm(`Do it now?\n\n${command}`)) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(path, { method: "POST", headers, body: wanted }).catch(() => null);
    if (!answer) told.textContent = "No answer. `sudo tidegate bans` shows whether it was done.";
    else told.textContent = answer.ok ? `Done: ${command}` : `Not done: ${(await answer.json()).error}`;
  }
});

// ── the stream ──
// sections that have come and do not stand in the page yet
const waiting = {};
let frozen = false;

function say(words, kind) {
  if (state.textContent !== words) state.textContent = words;
  state.className = `state ${kind}`;
}

// decisions come by the dozen in a flood: they stay while somebody reads them
function isRead(id) {
  if (id !== "decisions") return false;
  const there = byId(id);
  return there.contains(document.activeElement) || there.querySelector("details[open]") !== null;
}

function show() {
  if (frozen) return;
  say("live", "live");
  for (const [id, html] of Object.entries(waiting)) {
    if (isRead(id)) continue;
    place(id, html);
    delete waiting[id];
  }
}

const stream = new EventSource("api/v1/stream?view=page");
stream.addEventListener("open", () => { if (!frozen) say("live", "live"); });
stream.addEventListener("error", () => say("connection lost, trying again", "lost"));
stream.addEventListener("page", (event) => {
  Object.assign(waiting, JSON.parse(event.data));
  show();
});

freeze.addEventListener("click", () => {
  frozen = !frozen;
  freeze.setAttribute("aria-pressed", String(frozen));
  if (frozen) say("frozen", "");
  else show();
});

freeze.hidden = false;
theme.closest("label").hidden = false;

// @ts-check
// The page: shows the view of the address, and follows links inside the page.

import { ApiError, fragment, setToken, token } from "./api.js";
import { enliven, hush, point, saveJson, say } from "./actions.js";
import { converse } from "./conversation.js";
import { followOther, revealPane, showEnd } from "./programs.js";

const view = /** @type {HTMLElement} */ (document.getElementById("view"));
/** @type {AbortController} */
let current = new AbortController();

/**
 * Shows the view of the address.
 * @param {{ keepsFocus?: boolean }} [how]
 */
export async function show(how = {}) {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  try {
    if (!(await token())) return askForToken("");
    const content = await fragment(twin(), signal);
    if (signal.aborted) return;
    view.replaceChildren(content);
    view.removeAttribute("aria-busy");
    document.title = `${view.querySelector("h1")?.textContent ?? "Convoke"} – Convoke`;
    enliven(view);
    converse(view, signal);
    followOther(view, signal);
    if (!how.keepsFocus) find();
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && error.status === 401) return askForToken(error.message);
    view.replaceChildren(problem(error));
  }
}

/** Returns the address of the view's data. */
function twin() {
  const path = location.pathname === "/" ? "/sessions" : location.pathname;
  return `/api${path}${location.search}`;
}

/** Goes to the part of the view that the fragment of the address names. */
function find() {
  const id = location.hash.slice(1);
  const target = id ? document.getElementById(decodeURIComponent(id)) : null;
  const message = /^message-(\d+)$/.exec(id);
  if (target) {
    revealPane(target);
    point(target);
  } else if (message && !location.search) {
    // The message is on another page of the conversation.
    history.replaceState(null, "", `?message=${message[1]}#${id}`);
    void show();
  } else {
    view.focus({ preventScroll: true });
    const composer = document.getElementById("composer");
    if (composer) composer.scrollIntoView({ block: "end" });
    else if (!showEnd(view)) scrollTo(0, 0);
  }
}

/** @param {unknown} error */
function problem(error) {
  const text = document.createElement("p");
  text.className = "problem";
  text.setAttribute("role", "alert");
  text.textContent = error instanceof Error ? error.message : String(error);
  return text;
}

/** @param {string} why */
function askForToken(why) {
  const form = document.createElement("form");
  form.className = "search";
  const heading = document.createElement("h1");
  heading.textContent = "Open this page with its token";
  const text = document.createElement("p");
  text.textContent = `${why ? `${why}. ` : ""}Open the address printed in the terminal, or paste the part after #.`;
  const label = document.createElement("label");
  label.textContent = "Token";
  label.htmlFor = "token";
  const input = document.createElement("input");
  input.id = "token";
  input.type = "password";
  input.autocomplete = "off";
  const button = document.createElement("button");
  button.textContent = "Open";
  form.append(label, input, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value.replace(/^.*#/, ""));
    void show();
  });
  view.replaceChildren(heading, text, form);
  input.focus();
}

/**
 * Goes to another view.
 * @param {string} address
 */
export function go(address) {
  hush();
  history.pushState(null, "", address);
  void show();
}

document.addEventListener("go", (event) => go(/** @type {CustomEvent<string>} */ (event).detail));
document.addEventListener("show", () => void show({ keepsFocus: true }));

document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  const link = target.closest("a[href]");
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || link.origin !== location.origin) return;
  event.preventDefault();
  const same = link.pathname === location.pathname && link.search === location.search;
  hush();
  history.pushState(null, "", link.href);
  if (same && link.hash) find();
  else void show();
});

addEventListener("popstate", () => void show());

const theme = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));
const themes = ["auto", "light", "dark"];
/** @param {string} name */
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = `Theme: ${name}`;
  localStorage.setItem("convoke-theme", name);
}
theme.addEventListener("click", () => {
  const at = themes.indexOf(document.documentElement.dataset.theme ?? "auto");
  setTheme(themes[(at + 1) % themes.length]);
});
setTheme(localStorage.getItem("convoke-theme") ?? "auto");

document.getElementById("json")?.addEventListener("click", () => saveJson(twin()));

document.getElementById("copy-link")?.addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  say("Link copied. It contains no token: it opens in a browser that already shows this page.");
});

void show();

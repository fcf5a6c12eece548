// @ts-check
// The page: shows the view of the address, and follows links inside the page.

import { ApiError, fragment, setToken, token } from "./api.js";
import { enliven, hush, point, saveJson, say } from "./actions.js";
import { converse } from "./conversation.js";
import { choose, showGiven } from "./given.js";
import "./keys.js";
import { followOther, showEnd } from "./programs.js";
import { scrollerOf, showPane, showWorkbench } from "./workbench.js";

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
    shown = location.pathname + location.search;
    markPlace();
    view.removeAttribute("aria-busy");
    document.title = `${view.querySelector("h1")?.textContent ?? "Convoke"} – Convoke`;
    enliven(view);
    converse(view, signal);
    followOther(view, signal);
    showGiven(view);
    showWorkbench(view, signal);
    if (!how.keepsFocus) find();
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && error.status === 401) return askForToken(error.message);
    view.replaceChildren(problem(error));
  }
}

/** Marks the part of the page that is shown. */
function markPlace() {
  for (const link of document.querySelectorAll("header.site nav a")) {
    const { pathname } = /** @type {HTMLAnchorElement} */ (link);
    const isHere = pathname === "/" ? /^\/($|sessions|programs)/.test(location.pathname) : location.pathname === pathname;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
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
  const part = /^part-(\d+)$/.exec(id);
  const given = /** @type {HTMLElement | null} */ (view.querySelector(".given"));
  if (part && given) {
    void choose(given, part[1], { scrolls: true, focuses: true });
  } else if (target) {
    const bench = /** @type {HTMLElement | null} */ (target.closest(".workbench"));
    const pane = /** @type {HTMLElement | null} */ (target.closest(".pane"));
    if (bench && pane) showPane(bench, pane.dataset.name ?? "");
    point(target);
  } else if (message && !location.search) {
    // The message is on another page of the conversation.
    history.replaceState(null, "", `?message=${message[1]}#${id}`);
    void show();
  } else {
    view.focus({ preventScroll: true });
    if (!returns() && !showEnd(view)) scrollTo(0, 0);
  }
}

/** The places that a person has left, by address: a way back leads to them. */
const PLACES = "convoke-places";

/** Keeps how far the view is scrolled, for a reload and for the way back. */
function keepPlace() {
  const main = view.querySelector("#end, #composer");
  const top = main ? scrollerOf(main).scrollTop : scrollY;
  /** @type {[string, number][]} */
  const places = JSON.parse(sessionStorage.getItem(PLACES) ?? "[]");
  const others = places.filter(([address]) => address !== shown).slice(-50);
  sessionStorage.setItem(PLACES, JSON.stringify([...others, [shown, top]]));
}

/** The address of the view that is shown, and whether a person has come back to it. */
let shown = "";
let isBack = performance.getEntriesByType("navigation").some((it) => /** @type {PerformanceNavigationTiming} */ (it).type === "reload");

/** Scrolls to where the view was left, if a person has come back to it. */
function returns() {
  const [was, address] = [isBack, location.pathname + location.search];
  [shown, isBack] = [address, false];
  if (!was) return false;
  /** @type {[string, number][]} */
  const places = JSON.parse(sessionStorage.getItem(PLACES) ?? "[]");
  const place = places.find(([it]) => it === address);
  if (!place) return false;
  const main = view.querySelector("#end, #composer");
  const scroller = main ? scrollerOf(main) : /** @type {Element} */ (document.scrollingElement);
  scroller.scrollTop = place[1];
  return true;
}

/** @param {unknown} error */
function problem(error) {
  const status = error instanceof ApiError ? error.status : 0;
  const page = document.createElement("div");
  page.className = "empty";
  const heading = document.createElement("h1");
  heading.textContent = status === 404 ? "Not found" : status ? "This cannot be shown" : "The server does not answer";
  const text = document.createElement("p");
  text.className = "problem";
  text.setAttribute("role", "alert");
  text.textContent = error instanceof Error ? error.message : String(error);
  const ways = document.createElement("p");
  const again = document.createElement("button");
  again.textContent = "Try again";
  again.addEventListener("click", () => void show());
  const home = document.createElement("a");
  home.href = "/";
  home.textContent = "All sessions";
  ways.append(again, " ", home);
  page.append(heading, text, ways);
  return page;
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
  keepPlace();
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
  keepPlace();
  history.pushState(null, "", link.href);
  if (same && link.hash) find();
  else void show();
});

addEventListener("popstate", () => {
  keepPlace();
  isBack = true;
  void show();
});
addEventListener("pagehide", keepPlace);

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

document.getElementById("keys")?.addEventListener("click", () => /** @type {HTMLDialogElement} */ (document.getElementById("help")).showModal());

document.getElementById("json")?.addEventListener("click", () => saveJson(twin()));

document.getElementById("copy-link")?.addEventListener("click", async () => {
  const button = /** @type {HTMLElement} */ (document.getElementById("copy-link"));
  await navigator.clipboard.writeText(location.href);
  say("Link copied. It contains no token: it opens in a browser that already shows this page.");
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy link"), 2000);
});

void show();

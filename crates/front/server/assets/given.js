// @ts-check
// What a model was given: a choice in the picture, the list or the text is a choice in all three. Search, copy, line numbers.

import { fragment, request } from "./api.js";
import { enliven, say } from "./actions.js";
import { loadChunk, loadChunksOf } from "./chunks.js";

/** The ranges of CSS highlights; missing in old browsers, which show no marks. */
const marks = "highlights" in CSS ? CSS.highlights : null;

/**
 * Chooses a part.
 * @param {HTMLElement} given
 * @param {string} part its number
 * @param {{ scrolls?: boolean, focuses?: boolean }} [how]
 */
export async function choose(given, part, how = {}) {
  for (const before of given.querySelectorAll(".chosen")) before.classList.remove("chosen");
  const text = await textOf(given, part);
  for (const same of given.querySelectorAll(`[data-part="${part}"]`)) same.classList.add("chosen");
  const row = given.querySelector(`.part-rows li[data-part="${part}"]`);
  row?.scrollIntoView({ block: "nearest" });
  if (how.scrolls) text?.scrollIntoView({ block: "start" });
  if (how.focuses) text?.focus({ preventScroll: true });
  return text;
}

/**
 * Returns the text of a part, which is loaded if it is not in the page.
 * @param {HTMLElement} given
 * @param {string} part
 * @returns {Promise<HTMLElement | null>}
 */
async function textOf(given, part) {
  const inText = () => /** @type {HTMLElement | null} */ (given.querySelector(`.scroller [data-part="${part}"]`));
  if (inText()) return inText();
  const chunk = [...given.querySelectorAll(".chunk")].find((it) => {
    const { first, last } = /** @type {HTMLElement} */ (it).dataset;
    return Number(first) <= Number(part) && Number(part) <= Number(last);
  });
  if (chunk) await loadChunk(/** @type {HTMLElement} */ (chunk));
  return inText();
}

/**
 * Starts the texts of a view.
 * @param {ParentNode} view
 */
export function showGiven(view) {
  for (const given of /** @type {NodeListOf<HTMLElement>} */ (view.querySelectorAll(".given"))) {
    loadChunksOf(given);
    const form = given.querySelector("form.find");
    if (form instanceof HTMLFormElement) new Search(given, form);
  }
}

/** A search in a text. */
class Search {
  /**
   * @param {HTMLElement} given
   * @param {HTMLFormElement} form
   */
  constructor(given, form) {
    this.given = given;
    this.form = form;
    this.words = "";
    /** @type {{ part: number, times: number }[]} */
    this.matches = [];
    this.part = -1;
    this.time = 0;
    this.finding = Promise.resolve();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.step(1);
    });
    form.addEventListener("click", (event) => {
      const button = /** @type {Element} */ (event.target).closest("button");
      if (button?.dataset.step) void this.step(Number(button.dataset.step));
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        void this.step(-1);
      }
    });
    form.addEventListener("input", () => void this.find());
  }

  count() {
    return /** @type {HTMLElement} */ (this.form.querySelector(".found-count"));
  }

  /** Finds the words of the field; a search that has begun is waited for. */
  find() {
    const words = /** @type {HTMLInputElement} */ (this.form.elements.namedItem("q")).value.trim();
    if (words !== this.words) {
      this.words = words;
      this.finding = this.load(words);
    }
    return this.finding;
  }

  /** @param {string} words */
  async load(words) {
    this.matches = [];
    this.part = -1;
    this.time = 0;
    marks?.delete("found");
    marks?.delete("here");
    this.count().textContent = "";
    if (!words) return;
    const path = /** @type {string} */ (this.form.dataset.find);
    const response = await request(`${path}${path.includes("?") ? "&" : "?"}q=${encodeURIComponent(words)}`);
    const { matches } = await response.json();
    if (words !== this.words) return;
    this.matches = matches;
    const times = this.matches.reduce((sum, it) => sum + it.times, 0);
    this.count().textContent = times ? `${times.toLocaleString()}` : "none";
    this.mark(null);
  }

  /** @param {number} by */
  async step(by) {
    await this.find();
    if (!this.matches.length) return;
    this.time += by;
    const here = this.matches[this.part];
    if (!here || this.time < 0 || this.time >= here.times) {
      this.part = (this.part + by + this.matches.length) % this.matches.length;
      this.time = by > 0 ? 0 : this.matches[this.part].times - 1;
    }
    const before = this.matches.slice(0, this.part).reduce((sum, it) => sum + it.times, 0);
    const all = this.matches.reduce((sum, it) => sum + it.times, 0);
    this.count().textContent = `${before + this.time + 1} of ${all.toLocaleString()}`;
    const text = await choose(this.given, String(this.matches[this.part].part), { scrolls: true });
    if (!text) return;
    unfold(text);
    let ranges = rangesOf(text, this.words);
    while (ranges.length <= this.time) {
      const more = /** @type {HTMLButtonElement | null} */ (text.querySelector("button.more"));
      if (!more) break;
      const content = await fragment(/** @type {string} */ (more.dataset.more));
      enliven(content);
      more.replaceWith(content);
      ranges = rangesOf(text, this.words);
    }
    this.mark(ranges[this.time] ?? null);
  }

  /** @param {Range | null} here */
  mark(here) {
    if (!marks) return;
    const scroller = this.given.querySelector(".scroller");
    if (scroller && this.words) marks.set("found", new Highlight(...rangesOf(scroller, this.words).slice(0, 2000)));
    if (!here) return;
    marks.set("here", new Highlight(here));
    const box = here.getBoundingClientRect();
    const frame = /** @type {Element} */ (scroller).getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom) scroller?.scrollBy(0, box.top - frame.top - frame.height / 3);
  }
}

/**
 * Returns the places of words in an element.
 * @param {Element} element
 * @param {string} words
 */
function rangesOf(element, words) {
  const ranges = [];
  const lower = words.toLowerCase();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement?.closest(".gutter, button")) continue;
    const text = (node.textContent ?? "").toLowerCase();
    for (let at = text.indexOf(lower); at >= 0; at = text.indexOf(lower, at + lower.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + lower.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** @param {Element} text */
function unfold(text) {
  const button = text.querySelector("button[data-unfold]");
  if (button?.getAttribute("aria-expanded") === "false") toggle(/** @type {HTMLElement} */ (button));
}

/**
 * Shows the whole of a folded text, or folds it again.
 * @param {HTMLElement} button
 */
function toggle(button) {
  const body = button.previousElementSibling;
  const isOpen = body?.classList.toggle("open") ?? false;
  button.setAttribute("aria-expanded", String(isOpen));
  button.dataset.label ??= button.textContent ?? "";
  button.textContent = isOpen ? "Show less" : button.dataset.label;
}

/**
 * Copies what an address returns.
 * @param {string} path
 */
async function copy(path) {
  const response = await request(path);
  await navigator.clipboard.writeText(await response.text());
  say("Copied.");
}

document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  const given = /** @type {HTMLElement | null} */ (target.closest(".given"));
  const button = target.closest("button");
  if (button?.dataset.unfold !== undefined) return toggle(button);
  if (button?.dataset.copy) return void copy(button.dataset.copy).catch((error) => say(String(error.message ?? error)));
  if (button?.dataset.wrap !== undefined) {
    const isNumbered = given?.classList.toggle("numbered") ?? false;
    return button.setAttribute("aria-pressed", String(isNumbered));
  }
  if (button?.dataset.sort) return void sort(button);
  if (!given || button) return;
  const row = target.closest(".part-rows a.row");
  const part = /** @type {HTMLElement | null} */ (target.closest("[data-part]"))?.dataset.part;
  if (row && part) {
    event.preventDefault();
    history.replaceState(history.state, "", `#part-${part}`);
    return void choose(given, part, { scrolls: true });
  }
  if (target.closest('a[href="#frame"]')) {
    event.preventDefault();
    const frame = given.querySelector("details.frame");
    if (frame instanceof HTMLDetailsElement) frame.open = true;
    return frame?.scrollIntoView({ block: "nearest" });
  }
  // A selection of text is no choice.
  if (part && !target.closest("a, summary") && getSelection()?.isCollapsed !== false) {
    void choose(given, part, { scrolls: target.closest("svg") !== null });
  }
});

document.addEventListener("focusin", (event) => {
  const row = /** @type {Element} */ (event.target).closest(".part-rows li[data-part]");
  const given = /** @type {HTMLElement | null} */ (row?.closest(".given"));
  if (given && row instanceof HTMLElement && row.matches(":has(:focus-visible)")) void choose(given, row.dataset.part ?? "", { scrolls: true });
});

/**
 * Orders the rows of a list.
 * @param {HTMLElement} button
 */
async function sort(button) {
  const choice = /** @type {HTMLElement} */ (button.closest(".choice"));
  const path = /** @type {string} */ (choice.dataset.rows);
  const list = button.closest(".map")?.querySelector(".part-rows");
  const content = await fragment(`${path}${path.includes("?") ? "&" : "?"}sort=${button.dataset.sort}`);
  enliven(content);
  list?.replaceChildren(content);
  for (const it of choice.querySelectorAll("button")) it.setAttribute("aria-pressed", String(it === button));
}

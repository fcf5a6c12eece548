// @ts-check
// Long lists: what is near the reader is in the page. A chunk keeps its height while its rows are away, so that nothing moves.

import { fragment } from "./api.js";
import { enliven } from "./actions.js";

/** The height of a row that was never seen, in pixels. */
const ROW = 90;
/** The most nodes of a list before chunks that are far away are emptied. */
const MAX_NODES = 3500;

/** @type {WeakMap<Element, IntersectionObserver>} */
const observers = new WeakMap();

/**
 * Loads the chunks of a list when they come near.
 * @param {HTMLElement} list
 */
export function loadChunksOf(list) {
  const chunks = /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll(".chunk"));
  if (chunks.length < 2 && !list.querySelector(".chunk:not([data-here])")) return;
  const scroller = list.querySelector(".scroller");
  const root = scroller && getComputedStyle(scroller).overflowY !== "visible" ? scroller : null;
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const chunk = /** @type {HTMLElement} */ (target);
        if (isIntersecting) void loadChunk(chunk);
        else empty(list, chunk);
      }
    },
    { root, rootMargin: "800px 0px" },
  );
  observers.set(list, observer);
  for (const chunk of chunks) {
    if (!("here" in chunk.dataset)) hold(chunk, Number(chunk.dataset.rows) * ROW);
    observer.observe(chunk);
  }
}

/**
 * Keeps the place of a chunk.
 * @param {HTMLElement} chunk
 * @param {number} height
 */
function hold(chunk, height) {
  chunk.style.minHeight = `${height}px`;
}

/** @type {WeakMap<HTMLElement, Promise<void>>} */
const loading = new WeakMap();

/**
 * Loads the rows of a chunk, if they are not there.
 * @param {HTMLElement} chunk
 * @returns {Promise<void>}
 */
export function loadChunk(chunk) {
  if ("here" in chunk.dataset) return Promise.resolve();
  const begun = loading.get(chunk);
  if (begun) return begun;
  const done = (async () => {
    chunk.setAttribute("aria-busy", "true");
    try {
      const stored = chunk.querySelector("template");
      const content = stored ? /** @type {DocumentFragment} */ (stored.content.cloneNode(true)) : await fragment(/** @type {string} */ (chunk.dataset.chunk));
      enliven(content);
      for (const child of [...chunk.children]) if (!(child instanceof HTMLTemplateElement)) child.remove();
      chunk.append(content);
      chunk.dataset.here = "";
      chunk.style.minHeight = "";
    } finally {
      chunk.removeAttribute("aria-busy");
      loading.delete(chunk);
    }
  })();
  loading.set(chunk, done);
  return done;
}

/**
 * Takes the rows of a chunk away, if the list has many and nobody is in it.
 * @param {HTMLElement} list
 * @param {HTMLElement} chunk
 */
function empty(list, chunk) {
  if (!("here" in chunk.dataset) || chunk.contains(document.activeElement) || chunk.querySelector(".chosen, details[open]")) return;
  if (list.querySelectorAll("*").length < MAX_NODES) return;
  hold(chunk, chunk.offsetHeight);
  for (const child of [...chunk.children]) if (!(child instanceof HTMLTemplateElement)) child.remove();
  delete chunk.dataset.here;
}

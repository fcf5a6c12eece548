// @ts-check
// The panes of a session: they are resized and folded, and on a narrow screen one is shown at a time. What is chosen in the list
// or the chart is shown in the inspector, and is part of the address.

import { fragment } from "./api.js";
import { enliven } from "./actions.js";
import { showGiven } from "./given.js";

const WIDTHS = "convoke-panes";
/** The least and the most pixels of a pane. */
const [LEAST, MOST] = [180, 900];

/**
 * Starts the panes of a view.
 * @param {HTMLElement} view
 * @param {AbortSignal} signal
 */
export function showWorkbench(view, signal) {
  const bench = /** @type {HTMLElement | null} */ (view.querySelector(".workbench"));
  if (!bench) return;
  const head = /** @type {HTMLElement | null} */ (view.querySelector(".session-head"));
  const fit = () => bench.style.setProperty("--head", `${(head?.offsetHeight ?? 0) + 18}px`);
  const observer = new ResizeObserver(fit);
  if (head) observer.observe(head);
  signal.addEventListener("abort", () => observer.disconnect());
  for (const side of ["left", "right"]) restore(bench, side);
  for (const divider of /** @type {NodeListOf<HTMLElement>} */ (bench.querySelectorAll(".divider"))) resizes(bench, divider);
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (bench.querySelectorAll("button[data-pane]"));
  for (const button of buttons) button.addEventListener("click", () => showPane(bench, button.dataset.pane ?? ""));
  view.addEventListener("click", (event) => choose(bench, event), { signal });
  const chosen = new URLSearchParams(location.search).get("inspect");
  if (chosen && chosen.startsWith("/")) void inspect(bench, chosen);
}

/**
 * Shows a pane, on a screen that has room for one.
 * @param {HTMLElement} bench
 * @param {string} name
 */
export function showPane(bench, name) {
  bench.dataset.shown = name;
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (bench.querySelectorAll("button[data-pane]"))) {
    button.setAttribute("aria-pressed", String(button.dataset.pane === name));
  }
}

/**
 * @param {HTMLElement} bench
 * @param {MouseEvent} event
 */
function choose(bench, event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  const target = /** @type {HTMLElement | SVGElement | null} */ (/** @type {Element} */ (event.target).closest("[data-inspect]"));
  const path = target?.dataset.inspect;
  if (!path) return;
  event.preventDefault();
  const query = new URLSearchParams(location.search);
  query.set("inspect", path);
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
  void inspect(bench, path);
}

/**
 * Shows a view in the inspector.
 * @param {HTMLElement} bench
 * @param {string} path
 */
async function inspect(bench, path) {
  const pane = /** @type {HTMLElement} */ (bench.querySelector(".pane.inspector"));
  mark(path);
  pane.setAttribute("aria-busy", "true");
  showPane(bench, "inspector");
  delete bench.dataset.right;
  const open = document.createElement("p");
  open.className = "links";
  const link = document.createElement("a");
  link.href = path;
  link.textContent = "Open on its own page";
  open.append(link);
  try {
    const content = await fragment(`/api${path}`);
    content.querySelector(".crumbs")?.remove();
    for (const heading of content.querySelectorAll("h1, h2, h3")) {
      const lower = document.createElement(`h${Number(heading.tagName[1]) + 1}`);
      lower.className = heading.className;
      lower.id = heading.id;
      lower.append(...heading.childNodes);
      heading.replaceWith(lower);
    }
    enliven(content);
    pane.replaceChildren(open, content);
    showGiven(pane);
    pane.scrollTop = 0;
  } catch (error) {
    const text = document.createElement("p");
    text.className = "problem";
    text.textContent = error instanceof Error ? error.message : String(error);
    pane.replaceChildren(open, text);
  }
  pane.removeAttribute("aria-busy");
}

/**
 * Marks what is shown in the inspector.
 * @param {string} path
 */
export function mark(path) {
  for (const before of document.querySelectorAll(".request-rows .chosen, svg.chart .chosen")) before.classList.remove("chosen");
  for (const same of document.querySelectorAll(`[data-inspect="${CSS.escape(path)}"]`)) {
    (same.closest("li") ?? same).classList.add("chosen");
    if (same.matches("a")) same.scrollIntoView({ block: "nearest" });
  }
}

/** @returns {Record<string, string>} */
function widths() {
  try {
    return JSON.parse(localStorage.getItem(WIDTHS) ?? "{}");
  } catch {
    return {};
  }
}

/**
 * @param {HTMLElement} bench
 * @param {string} side
 */
function restore(bench, side) {
  const width = widths()[side];
  if (width === "closed") bench.dataset[side] = "closed";
  else if (width) bench.style.setProperty(`--${side}`, width);
}

/**
 * @param {HTMLElement} bench
 * @param {string} side
 * @param {string} width
 */
function keep(bench, side, width) {
  if (width === "closed") {
    bench.dataset[side] = "closed";
    bench.style.removeProperty(`--${side}`);
  } else {
    delete bench.dataset[side];
    bench.style.setProperty(`--${side}`, width);
  }
  localStorage.setItem(WIDTHS, JSON.stringify({ ...widths(), [side]: width }));
}

/**
 * Lets a person drag the border of a pane, move it by keys, or fold the pane.
 * @param {HTMLElement} bench
 * @param {HTMLElement} divider
 */
function resizes(bench, divider) {
  const side = /** @type {string} */ (divider.dataset.resize);
  const pane = /** @type {HTMLElement} */ (side === "left" ? divider.previousElementSibling : divider.nextElementSibling);
  /** @param {number} width */
  const set = (width) => keep(bench, side, `${Math.round(Math.min(Math.max(width, LEAST), MOST))}px`);
  const fold = () => keep(bench, side, bench.dataset[side] === "closed" ? `${side === "left" ? 304 : 480}px` : "closed");
  divider.addEventListener("dblclick", fold);
  divider.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -32, ArrowRight: 32 }[event.key];
    if (event.key === "Enter") fold();
    else if (by) set(pane.offsetWidth + (side === "left" ? by : -by));
    else return;
    event.preventDefault();
  });
  divider.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    divider.setPointerCapture(event.pointerId);
    const [from, width] = [event.clientX, pane.offsetWidth];
    /** @param {PointerEvent} moved */
    const move = (moved) => set(width + (side === "left" ? moved.clientX - from : from - moved.clientX));
    divider.addEventListener("pointermove", move);
    divider.addEventListener("lostpointercapture", () => divider.removeEventListener("pointermove", move), { once: true });
  });
}

/**
 * Returns what scrolls around an element: its pane, or the page.
 * @param {Element} element
 * @returns {Element}
 */
export function scrollerOf(element) {
  for (let at = element.parentElement; at; at = at.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(at).overflowY) && at.scrollHeight > at.clientHeight) return at;
  }
  return /** @type {Element} */ (document.scrollingElement);
}

/**
 * Returns whether a person sees the end of what scrolls.
 * @param {Element} scroller
 */
export function isAtEnd(scroller) {
  return scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 200;
}

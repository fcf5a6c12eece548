// @ts-check
// A session of another program: it is followed while its program writes it. Panes, and keys for lists.

import { ApiError, fragment, request } from "./api.js";
import { enliven } from "./actions.js";

const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));
/** The time between two looks at the files of a session. */
const PAUSE = 2000;

/**
 * Follows the session of a view, if it has one, until the view is left.
 * @param {HTMLElement} view
 * @param {AbortSignal} signal
 */
export function followOther(view, signal) {
  for (const panes of view.querySelectorAll(".panes")) choosePanes(/** @type {HTMLElement} */ (panes));
  const other = /** @type {HTMLElement | null} */ (view.querySelector("#other"));
  if (other) void follow(view, other, signal);
}

/**
 * Shows the end of a session, where its view has one.
 * @param {HTMLElement} view
 * @returns {boolean}
 */
export function showEnd(view) {
  const end = view.querySelector("#other #end");
  const rows = view.querySelector(".pane.requests");
  if (rows) rows.scrollTop = rows.scrollHeight;
  end?.scrollIntoView({ block: "end" });
  return end !== null;
}

/**
 * Looks whether the files have changed, and shows what is new.
 * @param {HTMLElement} view
 * @param {HTMLElement} other
 * @param {AbortSignal} signal
 */
async function follow(view, other, signal) {
  const path = /** @type {string} */ (other.dataset.other);
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (signal.aborted || document.hidden) continue;
    try {
      const response = await request(`${path}/state`, { signal });
      const { bytes, changedAt } = await response.json();
      connection.textContent = "";
      if (`${bytes}-${changedAt}` === other.dataset.state) continue;
      const content = await fragment(path, signal);
      if (!signal.aborted) update(view, other, content);
    } catch (error) {
      if (signal.aborted) return;
      // A server with another token.
      if (error instanceof ApiError && error.status === 401) {
        document.dispatchEvent(new CustomEvent("show"));
        return;
      }
      connection.textContent = error instanceof ApiError ? error.message : "not connected; retrying";
    }
  }
}

/**
 * @param {HTMLElement} view
 * @param {HTMLElement} other
 * @param {DocumentFragment} content
 */
function update(view, other, content) {
  const follows = innerHeight + scrollY > document.body.scrollHeight - 200;
  const pane = /** @type {HTMLElement} */ (view.querySelector(".pane.requests"));
  const rowsFollow = pane.scrollTop + pane.clientHeight > pane.scrollHeight - 50;
  other.dataset.state = /** @type {HTMLElement} */ (content.querySelector("#other")).dataset.state;
  enliven(content);
  for (const id of ["other-requests", "other-steps"]) {
    merge(/** @type {HTMLElement} */ (view.querySelector(`#${id}`)), /** @type {HTMLElement} */ (content.querySelector(`#${id}`)));
  }
  view.querySelector("#figures")?.replaceWith(/** @type {Element} */ (content.querySelector("#figures")));
  if (rowsFollow) pane.scrollTop = pane.scrollHeight;
  if (follows) scrollTo(0, document.body.scrollHeight);
}

/**
 * Adds the rows that are new, and replaces those that have changed; what a person has unfolded stays so.
 * @param {HTMLElement} shown
 * @param {HTMLElement} read
 */
function merge(shown, read) {
  const rows = [...read.querySelectorAll("ol > li")];
  const lists = shown.querySelectorAll("ol");
  if (!lists.length || (rows[0] && !document.getElementById(rows[0].id))) {
    shown.replaceChildren(...read.childNodes);
    return;
  }
  for (const row of rows) {
    const before = document.getElementById(row.id);
    if (!before) lists[lists.length - 1].append(row);
    else if (before.dataset.version !== /** @type {HTMLElement} */ (row).dataset.version) {
      const folds = before.querySelectorAll("details");
      row.querySelectorAll("details").forEach((fold, at) => (fold.open = folds[at]?.open ?? false));
      const hadFocus = before.contains(document.activeElement);
      before.replaceWith(row);
      if (hadFocus) /** @type {HTMLElement | null} */ (row.querySelector("a, summary"))?.focus({ preventScroll: true });
    }
  }
}

/**
 * Lets a person choose the pane on a screen that has room for one.
 * @param {HTMLElement} panes
 */
function choosePanes(panes) {
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (panes.querySelectorAll("button[data-pane]"));
  for (const button of buttons) {
    button.addEventListener("click", () => {
      panes.dataset.shown = button.dataset.pane;
      for (const it of buttons) it.setAttribute("aria-pressed", String(it === button));
    });
  }
}

/**
 * Shows the pane that an element is in.
 * @param {Element} element
 */
export function revealPane(element) {
  const name = /** @type {HTMLElement | null} */ (element.closest(".pane"))?.dataset.name;
  const button = element.closest(".panes")?.querySelector(`button[data-pane="${name}"]`);
  if (button instanceof HTMLButtonElement) button.click();
}

// `j` and `k` go through the rows of a list.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "j" && event.key !== "k")) return;
  if (/** @type {Element} */ (event.target).closest("input, textarea, select")) return;
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".rows a.row")]).filter((row) => row.offsetParent);
  const at = rows.findIndex((row) => row === document.activeElement);
  const next = event.key === "j" ? at + 1 : Math.max(at, 1) - 1;
  rows[next]?.focus();
});

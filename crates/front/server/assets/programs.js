// @ts-check
// A session of another program: it is followed while its program writes it.

import { ApiError, fragment, request } from "./api.js";
import { enliven } from "./actions.js";
import { isAtEnd, mark, scrollerOf } from "./workbench.js";

const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));
/** The time between two looks at the files of a session. */
const PAUSE = 2000;

/**
 * Follows the session of a view, if it has one, until the view is left.
 * @param {HTMLElement} view
 * @param {AbortSignal} signal
 */
export function followOther(view, signal) {
  const other = /** @type {HTMLElement | null} */ (view.querySelector("#other"));
  if (other) void follow(view, other, signal);
}

/**
 * Shows the end of a session, where its view has one.
 * @param {HTMLElement} view
 * @returns {boolean}
 */
export function showEnd(view) {
  const rows = view.querySelector(".pane.waterfall");
  if (rows && !rows.querySelector(".chosen")) rows.scrollTop = rows.scrollHeight;
  const end = view.querySelector("#other #end, #conversation #composer");
  if (!end) return false;
  const scroller = scrollerOf(end);
  scroller.scrollTop = scroller.scrollHeight;
  return true;
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
  const pane = /** @type {HTMLElement} */ (view.querySelector(".pane.waterfall"));
  const scroller = scrollerOf(/** @type {HTMLElement} */ (view.querySelector("#end")));
  const [follows, rowsFollow] = [isAtEnd(scroller), isAtEnd(pane)];
  other.dataset.state = /** @type {HTMLElement} */ (content.querySelector("#other")).dataset.state;
  enliven(content);
  for (const id of ["other-requests", "other-steps"]) {
    merge(/** @type {HTMLElement} */ (view.querySelector(`#${id}`)), /** @type {HTMLElement} */ (content.querySelector(`#${id}`)));
  }
  view.querySelector("#figures")?.replaceWith(/** @type {Element} */ (content.querySelector("#figures")));
  if (rowsFollow) pane.scrollTop = pane.scrollHeight;
  if (follows) scroller.scrollTop = scroller.scrollHeight;
  const chosen = new URLSearchParams(location.search).get("inspect");
  if (chosen) mark(chosen);
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

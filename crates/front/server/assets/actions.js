// @ts-check
// Handlers for the buttons and forms of views. Views are HTML from the server; data attributes select the handler.

import { act, fragment, request } from "./api.js";

const message = /** @type {HTMLElement} */ (document.getElementById("message"));
const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));

/**
 * Shows a notice.
 * @param {string} text
 */
export function say(text) {
  message.textContent = text;
  message.classList.add("shown");
  clearTimeout(shown);
  shown = setTimeout(() => message.classList.remove("shown"), 8000);
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let shown;

/** Removes the notice, which belongs to another view. */
export function hush() {
  message.classList.remove("shown");
}

/** @param {unknown} error */
function fail(error) {
  say(error instanceof Error ? error.message : String(error));
}

/**
 * Asks the person. Returns the text of the input, or nothing if the answer is no.
 * @param {string} title
 * @param {{ text?: string, input?: boolean }} what
 * @returns {Promise<string | null>}
 */
function ask(title, what) {
  const input = /** @type {HTMLInputElement} */ (document.getElementById("dialog-input"));
  const text = /** @type {HTMLElement} */ (document.getElementById("dialog-text"));
  /** @type {HTMLElement} */ (document.getElementById("dialog-title")).textContent = title;
  text.textContent = what.text ?? "";
  text.hidden = !what.text;
  input.hidden = !what.input;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue ? input.value : null), { once: true });
  });
}

/** @param {HTMLButtonElement} button */
async function post(button) {
  const path = /** @type {string} */ (button.dataset.post);
  const body = JSON.parse(button.dataset.body ?? "{}");
  if (button.dataset.ask) {
    const given = await ask(button.dataset.label ?? "", { input: true });
    if (!given) return;
    body[button.dataset.ask] = given;
  }
  button.disabled = true;
  try {
    let done = await act(path, body);
    if (button.dataset.confirm) {
      // The first request is a preview, the second one carries it out.
      const yes = await ask(`${button.dataset.confirm}?`, { text: done.text });
      if (yes === null) return;
      // It names the previewed turn: another one may have ended or been undone since.
      const turn = done.turn ? { turn: done.turn } : {};
      done = await act(path, { ...body, ...turn, confirmed: true });
      say(done.text);
    }
    if (done.session && !done.name) document.dispatchEvent(new CustomEvent("go", { detail: `/sessions/${done.session}` }));
    if (done.name || button.dataset.confirm) document.dispatchEvent(new CustomEvent("show"));
    if (done.waits) say("This will be done when the running turn has ended.");
    if (done.from) say("This is the copy; the original is unchanged.");
  } finally {
    button.disabled = false;
  }
}

/**
 * Saves a response as a file.
 * @param {string} path
 * @param {string} name
 */
async function save(path, name) {
  const response = await request(path);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/**
 * Saves the JSON form of a view.
 * @param {string} path
 */
export function saveJson(path) {
  save(path, `convoke${path.replace(/[^\w]+/g, "-").slice(0, 80)}.json`).catch(fail);
}

/**
 * Asks for the address of another view, and compares both.
 * @param {string} address
 */
async function compare(address) {
  const given = await ask("Compare with", {
    input: true,
    text: "The address of another turn or request, of any session (Copy link copies it).",
  });
  if (!given) return;
  const other = new URL(given.trim(), location.origin);
  const query = new URLSearchParams({ a: other.pathname + other.search, b: address });
  document.dispatchEvent(new CustomEvent("go", { detail: `/compare?${query}` }));
}

/**
 * Copies a command, and says so on its button.
 * @param {HTMLButtonElement} button
 */
async function copyText(button) {
  await navigator.clipboard.writeText(/** @type {string} */ (button.dataset.copyText));
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** @param {HTMLButtonElement} button */
async function more(button) {
  button.disabled = true;
  const content = await fragment(/** @type {string} */ (button.dataset.more));
  enliven(content);
  button.replaceWith(content);
}

document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  const button = target.closest("button");
  if (button?.dataset.post) post(button).catch(fail);
  else if (button?.dataset.download) save(button.dataset.download, button.dataset.name ?? "convoke").catch(fail);
  else if (button?.dataset.more) more(button).catch(fail);
  else if (button?.dataset.copyText) copyText(button).catch(fail);
  else if (button?.dataset.compare) compare(button.dataset.compare).catch(fail);
});

/**
 * Scrolls to an element, highlights it and focuses it.
 * @param {HTMLElement | null} found
 */
export function point(found) {
  for (const before of document.querySelectorAll(".found")) before.classList.remove("found");
  if (found?.matches(".message, .request-rows li")) found.classList.add("found");
  if (found instanceof HTMLDetailsElement) found.open = true;
  found?.scrollIntoView({ block: "center" });
  found?.focus({ preventScroll: true });
}

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.dataset.compare) {
    event.preventDefault();
    const other = /** @type {HTMLInputElement} */ (form.elements.namedItem("other")).value;
    const address = `${form.dataset.compare}${Number(other)}${form.dataset.query}`;
    document.dispatchEvent(new CustomEvent("go", { detail: address }));
  }
  if (!form.dataset.search) return;
  event.preventDefault();
  const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  document.dispatchEvent(new CustomEvent("go", { detail: `${form.dataset.search}?${query}` }));
});

/**
 * Loads the content of a part of a view.
 * @param {HTMLElement} part
 */
async function load(part) {
  part.setAttribute("aria-busy", "true");
  try {
    const content = await fragment(/** @type {string} */ (part.dataset.load));
    enliven(content);
    if (part instanceof HTMLDetailsElement) part.append(content);
    else part.replaceChildren(content);
  } catch (error) {
    const text = document.createElement("p");
    text.className = "problem";
    text.textContent = error instanceof Error ? error.message : String(error);
    part.append(text);
  }
  part.removeAttribute("aria-busy");
}

/**
 * Starts the parts of a view that need a script: loaded content and local times.
 * @param {ParentNode} view
 */
export function enliven(view) {
  for (const part of view.querySelectorAll("section[data-load]")) void load(/** @type {HTMLElement} */ (part));
  for (const folded of view.querySelectorAll("details[data-load]")) {
    folded.addEventListener(
      "toggle",
      () => void load(/** @type {HTMLElement} */ (folded)),
      { once: true },
    );
  }
  for (const time of view.querySelectorAll("time[data-millis]")) {
    const millis = Number(/** @type {HTMLElement} */ (time).dataset.millis);
    /** @type {HTMLElement} */ (time).title = time.textContent ?? "";
    const [at, today] = [new Date(millis), new Date()];
    if ("ago" in /** @type {HTMLElement} */ (time).dataset) {
      time.textContent = ago(today.getTime() - millis);
      continue;
    }
    const isToday = at.toDateString() === today.toDateString();
    /** @type {Intl.DateTimeFormatOptions} */
    const day = at.getFullYear() === today.getFullYear() ? { day: "numeric", month: "short" } : { dateStyle: "medium" };
    const clock = at.toLocaleTimeString();
    time.textContent = isToday ? clock : `${at.toLocaleDateString(undefined, day)}, ${clock}`;
  }
}

/** Units of time, in milliseconds, the largest first. */
const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["year", 31_557_600_000],
  ["month", 2_629_800_000],
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
]);
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/**
 * Returns how long ago a time was.
 * @param {number} millis
 */
function ago(millis) {
  const unit = UNITS.find(([, size]) => Math.abs(millis) >= size);
  return unit ? relative.format(-Math.round(millis / unit[1]), unit[0]) : "just now";
}

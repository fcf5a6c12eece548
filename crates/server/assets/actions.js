// @ts-check
// What the buttons and forms of a view do. Views are HTML of the server; their elements say by attributes what they are for.

import { act, fragment, request } from "./api.js";

const message = /** @type {HTMLElement} */ (document.getElementById("message"));
const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));

/**
 * Says something to the person.
 * @param {string} text
 */
export function say(text) {
  message.textContent = text;
  message.classList.add("shown");
  setTimeout(() => message.classList.remove("shown"), 8000);
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
      // The first request shows what would happen, the second does it.
      const yes = await ask("Do this?", { text: done.text });
      if (yes === null) return;
      done = await act(path, { ...body, confirmed: true });
      say(done.text);
    }
    if (done.session) document.dispatchEvent(new CustomEvent("go", { detail: `/sessions/${done.session}` }));
    if (done.name || button.dataset.confirm) document.dispatchEvent(new CustomEvent("show"));
    if (done.waits) say("It is done when the running turn has ended.");
  } finally {
    button.disabled = false;
  }
}

/** @param {HTMLButtonElement} button */
async function save(button) {
  const response = await request(/** @type {string} */ (button.dataset.download));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = button.dataset.name ?? "convoke";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
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
  else if (button?.dataset.download) save(button).catch(fail);
  else if (button?.dataset.more) more(button).catch(fail);
  const part = target.closest("rect[data-part]");
  if (part instanceof SVGElement) {
    const found = document.getElementById(`part-${part.dataset.part}`);
    for (const before of document.querySelectorAll(".found")) before.classList.remove("found");
    found?.classList.add("found");
    found?.scrollIntoView({ block: "center" });
    found?.focus({ preventScroll: true });
  }
});

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.dataset.search) return;
  event.preventDefault();
  const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  document.dispatchEvent(new CustomEvent("go", { detail: `${form.dataset.search}?${query}` }));
});

/**
 * Makes the parts of a view work that are not plain HTML.
 * @param {ParentNode} view
 */
export function enliven(view) {
  for (const folded of view.querySelectorAll("details[data-load]")) {
    folded.addEventListener(
      "toggle",
      () => {
        const path = /** @type {HTMLElement} */ (folded).dataset.load;
        if (path) fragment(path).then((content) => folded.append(content), fail);
      },
      { once: true },
    );
  }
  for (const time of view.querySelectorAll("time[data-millis]")) {
    const millis = Number(/** @type {HTMLElement} */ (time).dataset.millis);
    /** @type {HTMLElement} */ (time).title = time.textContent ?? "";
    time.textContent = new Date(millis).toLocaleString();
  }
}

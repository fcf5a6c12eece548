// @ts-check
// A live conversation: messages once and in order, growing texts of running turns, and the form for a message.

import { ApiError, act, events, parse } from "./api.js";
import { enliven, say } from "./actions.js";
import { isAtEnd, scrollerOf } from "./workbench.js";

const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));

/**
 * Follows the conversation of a view, if it has one, until the view is left.
 * @param {HTMLElement} view
 * @param {AbortSignal} signal
 */
export function converse(view, signal) {
  connection.textContent = "";
  const conversation = /** @type {HTMLElement | null} */ (view.querySelector("#conversation"));
  if (!conversation) return;
  const composer = view.querySelector("#composer");
  if (composer instanceof HTMLFormElement) compose(composer);
  ask(conversation);
  void follow(conversation, signal);
}

/**
 * @param {HTMLElement} conversation
 * @param {AbortSignal} signal
 */
async function follow(conversation, signal) {
  const path = `/api/sessions/${conversation.dataset.session}/stream`;
  let last = conversation.dataset.last ?? "0";
  let wait = 250;
  while (!signal.aborted) {
    try {
      /** @type {HTMLElement} */ (conversation.querySelector("#live")).replaceChildren();
      await events(
        path,
        last,
        signal,
        (name, data, id) => {
          if (signal.aborted) return;
          if (id !== null) last = id;
          hear(conversation, name, data);
        },
        () => {
          connection.textContent = "live";
          wait = 250;
        },
      );
    } catch (error) {
      // A server with another token; any other error is a lost connection, or the user left the view.
      if (error instanceof ApiError && error.status === 401) {
        document.dispatchEvent(new CustomEvent("show"));
        return;
      }
    }
    if (signal.aborted) return;
    connection.textContent = "not connected; retrying";
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 5000);
  }
}

/**
 * @param {HTMLElement} conversation
 * @param {string} name
 * @param {any} data
 */
function hear(conversation, name, data) {
  const scroller = scrollerOf(/** @type {Element} */ (conversation.querySelector("#standing")));
  const follows = isAtEnd(scroller);
  if (name === "message") {
    if ("gap" in conversation.dataset) return;
    if (document.getElementById(`message-${data.number}`)) return;
    const content = parse(data.html);
    enliven(content);
    const lists = conversation.querySelectorAll("ol.messages");
    lists[lists.length - 1].append(content);
  } else if (name === "standing") {
    replace(/** @type {HTMLElement} */ (conversation.querySelector("#standing")), data.html);
    ask(conversation);
    const cost = document.getElementById("cost");
    cost?.replaceChildren(parse(data.cost));
    removeEnded(conversation, data.live);
  } else if (name === "live") {
    live(conversation, data);
  }
  if (follows) scroller.scrollTop = scroller.scrollHeight;
}

/**
 * Replaces the content of an element. The focused button keeps the focus, and open details stay open.
 * @param {HTMLElement} element
 * @param {string} html
 */
function replace(element, html) {
  const content = parse(html);
  enliven(content);
  const open = new Set([...element.querySelectorAll("details[open] > summary")].map((it) => it.textContent));
  for (const summary of content.querySelectorAll("details > summary")) {
    const folded = /** @type {HTMLDetailsElement} */ (summary.parentElement);
    folded.open = open.has(summary.textContent);
  }
  const focused = element.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  element.replaceChildren(content);
  if (!focused) return;
  const same = [...element.querySelectorAll("button")].find(
    (it) => it.dataset.post === focused.dataset.post && it.dataset.body === focused.dataset.body,
  );
  (same ?? document.getElementById("say"))?.focus({ preventScroll: true });
}

/**
 * Removes the texts of ended turns: their replies are messages now.
 * @param {HTMLElement} conversation
 * @param {number[]} running
 */
function removeEnded(conversation, running) {
  for (const text of conversation.querySelectorAll("#live > div")) {
    if (!running.includes(Number(/** @type {HTMLElement} */ (text).dataset.turn))) text.remove();
  }
}

/**
 * Adds to the text of a running turn.
 * @param {HTMLElement} conversation
 * @param {{ turn: number, generation: number, offset: number, text: string, steps?: string }} data
 */
function live(conversation, data) {
  let element = /** @type {HTMLElement | null} */ (conversation.querySelector(`#live-${data.turn}`));
  if (!element) {
    element = document.createElement("div");
    element.id = `live-${data.turn}`;
    element.className = "message agent live";
    element.dataset.turn = String(data.turn);
    const author = document.createElement("header");
    const running = conversation.querySelector(`#standing [data-running="${data.turn}"]`);
    author.textContent = running?.textContent ?? `turn ${data.turn}`;
    const steps = document.createElement("div");
    const text = document.createElement("pre");
    text.className = "text";
    element.append(author, steps, text);
    conversation.querySelector("#live")?.append(element);
  }
  const [, steps, text] = element.children;
  if (data.offset === 0) text.replaceChildren();
  if (data.text) text.append(printable(data.text));
  forget(text);
  if (data.steps !== undefined) steps.replaceChildren(parse(data.steps));
}

/** The maximum number of characters that are shown of a running turn's text; its message has all of them. */
const LIVE_SHOWN = 64 * 1024;

/**
 * Removes the beginning of a long text, to keep the page fast.
 * @param {Element} text
 */
function forget(text) {
  let length = (text.textContent ?? "").length;
  while (length > LIVE_SHOWN && text.childNodes.length > 1) {
    length -= (text.firstChild?.textContent ?? "").length;
    text.firstChild?.remove();
    /** @type {HTMLElement} */ (text).dataset.cut = "";
  }
}

/**
 * Replaces control and direction characters by their names.
 * @param {string} text
 */
function printable(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `<U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`,
  );
}

/**
 * Sends the message of the form, and completes names of members after `@`.
 * @param {HTMLFormElement} form
 */
function compose(form) {
  const text = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("text"));
  const list = /** @type {HTMLElement} */ (form.querySelector("#completions"));
  const names = [...form.querySelectorAll("#members option")].map((it) => /** @type {HTMLOptionElement} */ (it).value);
  const to = /** @type {HTMLSelectElement} */ (form.elements.namedItem("to"));
  const person = /** @type {HTMLSelectElement} */ (form.elements.namedItem("person"));

  const setting = /** @type {HTMLInputElement | null} */ (form.querySelector("[data-enter-setting]"));
  const help = form.querySelector("[data-enter-help]");
  const tell = () => {
    if (help) help.textContent = setting?.checked ? "Ctrl-Enter sends." : "Enter sends, Shift-Enter breaks the line.";
  };
  if (setting) setting.checked = drafts?.getItem(ENTER) === "breaks";
  setting?.addEventListener("change", () => {
    drafts?.setItem(ENTER, setting.checked ? "breaks" : "sends");
    tell();
  });
  tell();
  const draft = `convoke-draft:${form.dataset.say}`;
  text.value = drafts?.getItem(draft) ?? "";

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = text.value;
    if (!said.trim()) return;
    const recipients = to.value ? [to.value] : [];
    text.disabled = true;
    const pending = showPending(said, person.value);
    try {
      const done = await act(/** @type {string} */ (form.dataset.say), { person: person.value, text: said, to: recipients });
      text.value = "";
      drafts?.removeItem(draft);
      if (done.waits) say("The message is saved, and will be sent when the running turn has ended.");
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    } finally {
      pending?.remove();
      text.disabled = false;
      text.focus();
    }
  });

  /**
   * Shows a message at once, until the server has it.
   * @param {string} said
   * @param {string} from
   */
  function showPending(said, from) {
    const place = form.parentElement?.querySelector("#standing");
    const message = document.createElement("div");
    message.className = "message person sending";
    const author = document.createElement("header");
    author.textContent = `${from} · being sent`;
    const content = document.createElement("pre");
    content.className = "text";
    content.textContent = printable(said.slice(0, LIVE_SHOWN));
    message.append(author, content);
    place?.before(message);
    return message;
  }

  text.addEventListener("keydown", (event) => {
    const options = [...list.children];
    const isPlain = !event.shiftKey && !event.altKey && !event.isComposing;
    const isControl = event.ctrlKey || event.metaKey;
    const sends = event.key === "Enter" && isPlain && (isControl || (!setting?.checked && list.hidden));
    if (sends) {
      event.preventDefault();
      form.requestSubmit();
    } else if (!list.hidden && (event.key === "Tab" || event.key === "Enter") && options.length > 0) {
      event.preventDefault();
      complete(options.find((it) => it.getAttribute("aria-selected") === "true")?.textContent ?? "");
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const at = options.findIndex((it) => it.getAttribute("aria-selected") === "true");
      const next = (at + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length;
      options.forEach((it, index) => it.setAttribute("aria-selected", String(index === next)));
    } else if (event.key === "Escape") {
      list.hidden = true;
    }
  });

  text.addEventListener("input", () => {
    const begun = /(?:^|\s)@([\p{L}\p{N}_-]*)$/u.exec(text.value.slice(0, text.selectionStart));
    const found = begun ? names.filter((name) => name.toLowerCase().startsWith(begun[1].toLowerCase())) : [];
    list.hidden = found.length === 0;
    keep();
    list.replaceChildren(
      ...found.map((name, index) => {
        const option = document.createElement("li");
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", String(index === 0));
        option.textContent = name;
        option.addEventListener("click", () => complete(name));
        return option;
      }),
    );
  });

  /** Keeps the text for a reload and for a restart of the server. */
  function keep() {
    try {
      if (text.value) drafts?.setItem(draft, text.value);
      else drafts?.removeItem(draft);
    } catch {
      // The storage is full: the text is in the field only.
    }
  }

  /** @param {string} name */
  function complete(name) {
    const before = text.value.slice(0, text.selectionStart).replace(/@[\p{L}\p{N}_-]*$/u, `@${name} `);
    text.value = before + text.value.slice(text.selectionStart);
    text.setSelectionRange(before.length, before.length);
    list.hidden = true;
    keep();
    text.focus();
  }
}

/** The key of the setting that turns Enter round. */
const ENTER = "convoke-enter";

/** The questions that a person was told of. */
const told = new Set();
let title = "";

/**
 * Makes questions of agents seen: a badge in the title, and a notification if the person allowed it.
 * @param {HTMLElement} conversation
 */
function ask(conversation) {
  const cards = /** @type {NodeListOf<HTMLElement>} */ (conversation.querySelectorAll(".question"));
  title = document.title.replace(/^\(\d+\) /, "");
  document.title = cards.length ? `(${cards.length}) ${title}` : title;
  for (const card of cards) {
    const id = card.dataset.question ?? "";
    countDown(card);
    if (told.has(id)) continue;
    told.add(id);
    card.scrollIntoView({ block: "nearest" });
    if (!("Notification" in window)) continue;
    if (Notification.permission === "granted" && document.hidden) new Notification(card.querySelector("h2")?.textContent ?? "An agent asks");
    else if (Notification.permission === "default") offer(card);
  }
}

/**
 * Offers to notify the person of questions from now on.
 * @param {HTMLElement} card
 */
function offer(card) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Notify me of questions";
  button.addEventListener("click", () => void Notification.requestPermission().then(() => button.remove()));
  card.querySelector(".actions")?.append(button);
}

/**
 * Shows the time that is left to answer.
 * @param {HTMLElement} card
 */
function countDown(card) {
  const left = /** @type {HTMLElement | null} */ (card.querySelector("[data-until]"));
  if (!left) return;
  const show = () => {
    if (!left.isConnected) return clearInterval(timer);
    const seconds = Math.max(0, Math.round((Number(left.dataset.until) - Date.now()) / 1000));
    left.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`;
  };
  const timer = setInterval(show, 1000);
  show();
}

/** The texts of messages that are not sent, by session; null if the browser keeps nothing. */
const drafts = (() => {
  try {
    return localStorage;
  } catch {
    return null;
  }
})();

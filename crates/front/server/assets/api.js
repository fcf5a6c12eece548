// @ts-check
// Requests with the token. The token is in the fragment of the address, which is never sent, and is kept in this tab;
// other tabs of this page can ask for it.

const KEY = "convoke-token";
const channel = new BroadcastChannel("convoke");

channel.addEventListener("message", (event) => {
  const known = sessionStorage.getItem(KEY);
  if (event.data === "token?" && known) channel.postMessage({ token: known });
});

/** Moves the token from the address to this tab's storage. */
function takeToken() {
  const fragment = location.hash.slice(1);
  if (/^[0-9a-f]{64}$/.test(fragment)) {
    sessionStorage.setItem(KEY, fragment);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
}

/**
 * Asks other tabs of this page for the token.
 * @returns {Promise<string | null>}
 */
function askTabs() {
  return new Promise((resolve) => {
    const timer = setTimeout(() => done(null), 300);
    /** @param {MessageEvent} event */
    const hear = (event) => {
      if (event.data && typeof event.data.token === "string") done(event.data.token);
    };
    /** @param {string | null} token */
    const done = (token) => {
      clearTimeout(timer);
      channel.removeEventListener("message", hear);
      resolve(token);
    };
    channel.addEventListener("message", hear);
    channel.postMessage("token?");
  });
}

/**
 * Returns the token, or null if no tab has it.
 * @returns {Promise<string | null>}
 */
export async function token() {
  takeToken();
  const known = sessionStorage.getItem(KEY);
  if (known) return known;
  const heard = await askTabs();
  if (heard) sessionStorage.setItem(KEY, heard);
  return heard;
}

/** @param {string} given */
export function setToken(given) {
  sessionStorage.setItem(KEY, given.trim());
}

/** A failed request. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Sends a request.
 * @param {string} path
 * @param {RequestInit & { headers?: Record<string, string> }} [init]
 * @returns {Promise<Response>}
 */
export async function request(path, init = {}) {
  const headers = { ...init.headers, Authorization: `Bearer ${(await token()) ?? ""}` };
  const response = await fetch(path, { ...init, headers, cache: "no-store" });
  if (!response.ok) {
    let message = response.statusText;
    try {
      message = (await response.json()).error ?? message;
    } catch {
      // Not JSON: the status is the message.
    }
    throw new ApiError(response.status, message);
  }
  return response;
}

/**
 * Loads a fragment of HTML.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<DocumentFragment>}
 */
export async function fragment(path, signal) {
  const response = await request(path, { headers: { Accept: "text/html" }, signal });
  return parse(await response.text());
}

/**
 * Parses HTML from the server. Scripts in it do not run.
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/**
 * Sends an action.
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>}
 */
export async function act(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await request(path, { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
}

/**
 * Reads server-sent events until the stream ends or is aborted.
 * @param {string} path
 * @param {string | null} last the last event id
 * @param {AbortSignal} signal
 * @param {(name: string, data: any, id: string | null) => void} heard
 * @param {() => void} opened
 */
export async function events(path, last, signal, heard, opened) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "text/html" };
  if (last !== null) headers["Last-Event-ID"] = last;
  const response = await request(path, { headers, signal });
  opened();
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      let name = "message";
      let data = "";
      /** @type {string | null} */
      let id = null;
      for (const line of event.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("id: ")) id = line.slice(4);
      }
      if (data) heard(name, JSON.parse(data), id);
    }
  }
}

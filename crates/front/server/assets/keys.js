// @ts-check
// Keys: `j` and `k` go through the rows of a list, `/` searches, `?` shows all.

/** The rows of the list that a person is in, or of the first one. */
function rows() {
  const here = document.activeElement?.closest(".rows, .pane, .map");
  const all = /** @type {HTMLElement[]} */ ([...(here ?? document).querySelectorAll(".rows a.row")]);
  const found = all.length ? all : /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".rows a.row")]);
  return found.filter((row) => row.offsetParent);
}

/** @param {number} by */
function go(by) {
  const list = rows();
  const at = list.findIndex((row) => row === document.activeElement);
  const next = list[at < 0 ? 0 : Math.min(Math.max(at + by, 0), list.length - 1)];
  next?.focus();
}

function search() {
  const fields = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll('input[type="search"]')]);
  const field = fields.find((it) => it.offsetParent);
  field?.focus();
  field?.select();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("input, textarea, select, dialog")) {
    if (event.key === "Escape" && target.matches('input[type="search"]')) target.blur();
    return;
  }
  const acts = /** @type {Record<string, () => void>} */ ({
    j: () => go(1),
    k: () => go(-1),
    "/": search,
    "?": () => /** @type {HTMLDialogElement} */ (document.getElementById("help")).showModal(),
  });
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

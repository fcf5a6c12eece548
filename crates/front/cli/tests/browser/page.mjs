// Drives the page in chromium: a conversation by clicks and keys, two tabs, a server that is killed and restarted, the
// inspector against the terminal, hostile texts, and other sites. Ends with an error if anything is wrong.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect } from "./checks.mjs";
import { go, prepare, project, serve, terminal } from "./project.mjs";

const { chromium } = createRequire(join(process.env.PACKAGES, "package.json"))("playwright-core");
const step = (text) => console.log(`- ${text}`);
const grouped = (number) => number.toLocaleString("en");

prepare();
let { server, url, origin, token } = await serve();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"],
});
try {
  const context = await browser.newContext({ acceptDownloads: true, viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(60_000);
  const foreign = [];
  const complaints = [];
  const origins = new Set([origin]);
  context.on("request", (request) => {
    const at = new URL(request.url());
    if (at.protocol !== "blob:" && !origins.has(at.origin)) foreign.push(request.url());
  });
  context.on("console", (message) => {
    // A server that is down, and an action that it refuses, are not faults of the page.
    if (message.type() === "error" && !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY|ERR_CONNECTION_RESET|401|409/.test(message.text())) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));

  const field = (page) => page.getByLabel("Message", { exact: true });
  /** Says something with keys only. */
  async function say(page, text) {
    await field(page).fill(text);
    await field(page).press("Control+Enter");
  }
  const numbers = (page) => page.locator("li.message").evaluateAll((all) => all.map((it) => Number(it.dataset.number)));
  const reply = (page, text) => page.locator("li.message.agent", { hasText: text }).last();
  /** Opens the inspector of the turn that a message is the reply of. */
  async function open(page, message) {
    await message.getByRole("link", { name: /^turn \d+$/ }).click();
    await page.getByRole("heading", { name: /^Turn \d+: / }).waitFor();
    return Number(/turns\/(\d+)/.exec(page.url())[1]);
  }
  const save = async (page, button) => {
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    return readFileSync(await download.path());
  };

  step("a conversation is started by a click and led by keys; names are completed");
  const first = await context.newPage();
  await first.goto(url);
  await first.getByRole("heading", { name: "Sessions" }).waitFor();
  assert.equal(await first.evaluate(() => location.hash), "", "the token leaves the address");
  await first.locator("a.skip").focus();
  await first.keyboard.press("Enter");
  assert.equal(await first.evaluate(() => document.activeElement?.id), "view", "a key leads to the content");
  await first.getByRole("button", { name: "New conversation" }).click();
  await field(first).waitFor();
  await field(first).pressSequentially("@m");
  await first.locator("#completions li", { hasText: "max" }).waitFor();
  await field(first).press("ArrowDown");
  await field(first).press("ArrowUp");
  await field(first).press("Tab");
  assert.equal(await field(first).inputValue(), "@max ");
  await field(first).pressSequentially("What of the parser?");
  await field(first).press("Control+Enter");
  await reply(first, "an empty token is accepted").waitFor();
  const session = first.url().split("/").pop();

  step("a second tab gets the token of the first, and sees the same");
  const second = await context.newPage();
  await second.goto(`${origin}/sessions/${session}`);
  await second.locator("li.message.agent").waitFor();
  await field(second).fill("And the lexer?");
  await second.getByRole("button", { name: "Send" }).click();
  for (const page of [first, second]) {
    await page.locator("#message-4").waitFor();
    assert.deepEqual(await numbers(page), [1, 2, 3, 4]);
  }
  assert.equal(await first.locator("#message-3 header").getByText("max").count(), 1, "a message without a name goes to the default recipient");
  const { messages } = terminal("sessions", "show", session);
  const texts = await first.locator("li.message .prose").allTextContents();
  assert.deepEqual(texts, messages.map(({ message }) => message.content), "the terminal has the same");

  step("a file is attached");
  await say(first, "@max Look at @src/parser.rs, please");
  const attached = second.locator("#message-5 details.attachment");
  await attached.locator("summary").click();
  assert.equal(await attached.locator("pre").textContent(), readFileSync(join(project, "src/parser.rs"), "utf8"));
  await second.locator("#message-6").waitFor();
  await say(first, "@max Look at @src/nothing.rs");
  await first.locator("#message.shown", { hasText: "no such file" }).waitFor();
  await field(first).fill("");

  step("a question is refused by a key in one tab, and allowed by a click in the other");
  await say(first, "@ask Build it");
  for (const page of [first, second]) await page.locator(".question", { hasText: "make all" }).waitFor();
  await inspect(second, "question");
  assert.match(await second.title(), /^\(1\) /, "the title says that someone asks");
  assert.match(await second.locator(".question [data-until]").textContent(), /\d+:\d\d left/);
  await first.getByRole("button", { name: "Refuse" }).focus();
  await first.keyboard.press("Enter");
  await reply(second, "I was refused.").waitFor();
  await second.locator(".question").waitFor({ state: "detached" });
  assert.ok(!existsSync(join(project, "built.txt")));
  await say(first, "@ask Build it again");
  await second.getByRole("button", { name: "Allow once" }).click();
  await reply(first, "I was allowed.").waitFor();
  await first.locator(".question").waitFor({ state: "detached" });
  assert.ok(existsSync(join(project, "built.txt")));
  await first.locator("#cost", { hasText: "$0.02" }).waitFor();
  await first.reload();
  await reply(first, "I was allowed.").waitFor();
  await inspect(first, "conversation");

  step("the time line of a turn has its question, and its changed files");
  const asked = await open(second, reply(second, "I was allowed."));
  await second.locator("svg.time-line text", { hasText: "questions" }).waitFor();
  const events = (await second.locator("ol.events summary").allTextContents()).map((it) => it.replace(/\s+/g, " ").trim());
  const answered = events.find((it) => it.includes("permission answered"));
  assert.match(answered, /^\d+\.\d s permission answered once/);
  await second.locator("section.changes", { hasText: "built.txt" }).waitFor();
  await inspect(second, "events", "#events");
  await second.goBack();

  step("a running turn is seen as it is written, in both tabs; it is cancelled and tried again");
  await say(first, "Take your time [NEXT: slow, max]");
  for (const page of [first, second]) {
    await page.locator("#standing .running", { hasText: "slow" }).waitFor();
    await page.locator("#standing .queue", { hasText: "Next: max" }).waitFor();
  }
  await first.locator("#live", { hasText: "working" }).waitFor();
  await first.getByRole("button", { name: "Cancel", exact: true }).first().click();
  await second.getByRole("button", { name: "Retry" }).click();
  await first.locator("#standing .running", { hasText: "slow" }).waitFor();
  await say(first, "@max This waits");
  await first.locator("#message.shown", { hasText: "when the running turn has ended" }).waitFor();
  for (const page of [first, second]) await page.locator("#standing .pending", { hasText: "This waits" }).waitFor();
  await inspect(first, "pending");

  step("the server is killed in the middle of a turn, and what it accepted and what was being written is kept");
  await field(first).pressSequentially("Half a thought");
  await first.reload();
  await field(first).waitFor();
  assert.equal(await field(first).inputValue(), "Half a thought");
  const before = await numbers(first);
  server.kill("SIGKILL");
  await new Promise((resolve) => server.once("exit", resolve));
  await first.getByText("not connected").waitFor();
  const address = url;
  ({ server, url, origin, token } = await serve());
  assert.equal(url, address, "the address is the same");
  await first.getByText("interrupted").waitFor();
  await first.reload();
  await first.locator("#standing .pending", { hasText: "This waits" }).waitFor();
  assert.equal(await field(first).inputValue(), "Half a thought");
  await field(first).fill("");
  writeFileSync(go, "");
  await first.locator("#standing").getByRole("button", { name: "Resume" }).first().click();
  for (const page of [first, second]) {
    await reply(page, "done").waitFor();
    const after = await numbers(page);
    assert.deepEqual(after, after.map((_, index) => index + 1), "nothing is lost and nothing comes twice");
    assert.ok(after.length > before.length);
    assert.equal(await page.locator("li.message.person", { hasText: "This waits" }).count(), 1, "it was sent once");
    await page.locator("#standing .pending").waitFor({ state: "detached" });
  }

  step("attempts are inspected and compared");
  await open(second, reply(second, "done"));
  const attempts = second.getByRole("navigation", { name: "Attempts" });
  assert.deepEqual(await attempts.getByRole("link").allTextContents(), ["1", "2", "3"]);
  await attempts.getByRole("link", { name: "1" }).click();
  await second.locator("dl.strip", { hasText: "cancelled" }).waitFor();
  await second.getByRole("link", { name: "attempt 3" }).click();
  await second.getByRole("heading", { name: /attempt 1 and turn \d+, attempt 3/ }).waitFor();
  await second.close();

  step("hostile texts run nothing, and long ones leave the page quick");
  const hostile = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \u001b[2J \u202egnp ${"x".repeat(768 * 1024)}`;
  await say(first, `@max ${hostile}`);
  const long = first.locator("li.message.person", { hasText: "window.hacked" });
  await long.locator("button.more").first().waitFor();
  assert.equal(await first.evaluate(() => window.hacked), undefined);
  assert.equal(await long.locator("img, script").count(), 0);
  await reply(first, "an empty token").waitFor();
  await say(first, "@flood Write a lot");
  const flood = first.locator("li.message.agent", { hasText: "xxxx" });
  await flood.locator("button.more").waitFor();
  const size = await flood.evaluate((it) => it.innerHTML.length);
  assert.ok(size < 100_000, `${size} letters of a reply of 10 MB are on the page`);
  await first.getByRole("button", { name: "Theme: auto" }).click({ timeout: 5_000 });
  await first.getByRole("button", { name: "Theme: light" }).click({ timeout: 5_000 });
  await first.getByRole("button", { name: "Theme: dark" }).click({ timeout: 5_000 });
  await flood.locator("button.more").click();
  await first.waitForFunction((size) => document.querySelector("li.message.agent:last-child")?.innerHTML.length !== size, size);

  step("the inspector has the figures of the terminal");
  const turn = await open(first, first.locator("#message-4"));
  const stored = terminal("sessions", "show", session, "--turn", String(turn));
  const used = stored.ledger.usedBytes;
  assert.equal(await first.locator(".used-bytes").textContent(), grouped(used));
  for (const picture of ["svg.bar.order", "svg.treemap"]) {
    const bytes = await first.locator(`${picture} rect`).evaluateAll((all) => all.map((it) => Number(it.dataset.bytes)));
    assert.equal(bytes.reduce((sum, it) => sum + it, 0), used, picture);
  }
  const listed = await first.locator(".part-rows li").evaluateAll((all) => all.map((it) => [Number(it.dataset.part), Number(it.querySelector("[data-bytes]")?.dataset.bytes)]));
  for (const [index, bytes] of listed) assert.equal(bytes, stored.ledger.entries[index].keptBytes);
  const part = stored.ledger.entries.findIndex((entry) => entry.source.kind === "message");
  const [from, to] = stored.ledger.entries[part].range;
  const exact = Buffer.from(stored.prompt).subarray(from, to).toString();

  step("a part that is chosen in the picture, the list or the text is chosen in all three, by mouse and by keys");
  const chosen = () => first.locator(".given .chosen").evaluateAll((all) => all.map((it) => it.dataset.part));
  const isPart = (all, index) => all.length === 4 && all.every((it) => it === String(index));
  await first.locator(`svg.treemap rect[data-part="${part}"]`).click({ force: true });
  await first.locator(`#part-${part}.chosen`).waitFor();
  assert.ok(isPart(await chosen(), part), "by the picture");
  assert.equal(await first.locator(`#part-${part} pre`).textContent(), exact);
  const other = listed.find(([index]) => index !== part)?.[0];
  await first.locator(`.part-rows li[data-part="${other}"] a`).click();
  await first.locator(`#part-${other}.chosen`).waitFor();
  assert.ok(isPart(await chosen(), other), "by the list");
  assert.equal(await first.evaluate(() => location.hash), `#part-${other}`, "a link keeps it");
  await first.locator(`.part-rows li[data-part="${other}"] a`).focus();
  await first.keyboard.press("j");
  await first.waitForFunction((index) => document.querySelector(".piece.chosen")?.id !== `part-${index}`, other);
  await first.locator(`#part-${part} pre`).click();
  assert.ok(isPart(await chosen(), part), "by the text");

  step("a text is searched with keys only");
  await first.locator("#view").focus();
  await first.keyboard.press("/");
  await first.keyboard.type("empty token");
  await first.keyboard.press("Enter");
  await first.locator(".found-count", { hasText: /^1 of \d+$/ }).waitFor();
  assert.ok(await first.evaluate(() => CSS.highlights.get("here")?.size === 1), "the place is marked");
  await first.keyboard.press("Escape");
  await inspect(first, "turn");
  await first.getByRole("link", { name: "Exact" }).click();
  await first.locator(`#part-${part}`, { hasText: exact }).waitFor();
  assert.equal(await first.locator(`pre.sourced #part-${part}`).textContent(), exact);
  await inspect(first, "turn-exact");
  await first.getByRole("link", { name: "Show white space" }).click();
  await first.locator("pre.sourced i", { hasText: "·" }).first().waitFor();
  await first.getByRole("link", { name: "Hide white space" }).click();
  await first.getByRole("link", { name: "Show white space" }).waitFor();

  step("a downloaded prompt has the stored hash, and the view has a JSON twin");
  const prompt = await save(first, first.getByRole("button", { name: "Download" }));
  assert.equal(createHash("sha256").update(prompt).digest("hex"), stored.attempts[0].prompt.hash);
  const twin = JSON.parse(await save(first, first.getByRole("button", { name: "JSON" })));
  assert.deepEqual(twin, stored);

  step("two turns are compared, by a link, and by a number with keys only");
  await first.getByRole("link", { name: "turn 1", exact: true }).focus();
  await first.keyboard.press("Enter");
  await first.getByRole("heading", { name: "Reusable by a cache" }).waitFor();
  const difference = terminal("sessions", "diff", session, "1", String(turn));
  assert.match(await first.locator("#reusable").textContent(), new RegExp(`^${grouped(difference.reusableBytes)} bytes`));
  assert.equal(Number(await first.locator("rect.unchanged").getAttribute("data-bytes")), difference.reusableBytes);
  assert.match(await first.locator("#first-difference").textContent(), /the section CONTEXT is new/);
  await inspect(first, "diff");
  await first.goBack();
  await first.getByLabel("Any turn").fill(String(asked));
  await first.keyboard.press("Enter");
  await first.getByRole("heading", { name: `turn ${turn} of max and turn ${asked} of ask` }).waitFor();

  step("what was left out stands in its place, with the rule and its arithmetic");
  await first.goto(`${origin}/sessions/${session}`);
  await say(first, "@short Sum up");
  const brief = first.locator("li.message.agent", { hasText: "short" });
  const short = await open(first, brief);
  const { ledger } = terminal("sessions", "show", session, "--turn", String(short));
  const dropped = ledger.entries.find((entry) => entry.state === "dropped");
  const arithmetic = dropped.rule;
  assert.match(arithmetic, /\d+ bytes needed, \d+ available/);
  await first.locator(".piece .rule", { hasText: arithmetic }).first().waitFor();
  await first.getByRole("link", { name: "Exact" }).click();
  await first.locator("pre.sourced .left-out", { hasText: arithmetic }).first().waitFor();
  await inspect(first, "left-out");

  step("the request that the model received is shown by owner, and its cache is drawn");
  await first.goto(`${origin}/sessions/${session}`);
  for (const text of ["One.", "Two."]) {
    await say(first, `@model Say ${text}`);
    await reply(first, text).waitFor();
  }
  const modelled = await open(first, reply(first, "Two."));
  const record = terminal("sessions", "show", session, "--turn", String(modelled), "--request");
  await first.locator("ul.requests a").first().click();
  await first.getByRole("heading", { name: /Request \d+ · turn \d+ · answer/ }).waitFor();
  const body = await save(first, first.getByRole("button", { name: "Download" }));
  assert.equal(body.toString(), record.body);
  assert.equal(await first.locator(".used-bytes").textContent(), grouped(body.length));
  await first.locator(".cache-use", { hasText: `${grouped(record.unchangedBytes)} of` }).waitFor();
  assert.deepEqual(await first.locator(".cache-bars .name").allTextContents(), ["Could be reused", "Was reused"]);
  await inspect(first, "request");

  step("from a request one click leads to what differs from the one before it");
  await first.getByRole("link", { name: "Compare with the one before" }).click();
  await first.getByRole("heading", { name: "What changed" }).waitFor();
  await first.locator("li.boundary", { hasText: "tokens a cache can reuse" }).waitFor();
  await inspect(first, "compare");
  await first.goto(`${origin}/sessions/${session}/cache`);
  await first.locator("ol.cache .cache-bars svg.could").first().waitFor();
  await inspect(first, "cache");

  step("changes of a workspace are shown, and a turn is undone");
  await first.goto(`${origin}/sessions/${session}`);
  await say(first, "@pen Write it down");
  await reply(first, "I wrote a note.").waitFor();
  await say(first, "@copy Write it down, too");
  await first.locator("li.message.agent header", { hasText: "copy" }).waitFor();
  await first.getByRole("link", { name: "Changes" }).click();
  await first.getByRole("heading", { name: "Workspace of copy" }).waitFor();
  const changes = terminal("changes", session);
  await first.locator("section.workspace", { hasText: changes.workspaces[0].branch }).waitFor();
  await first.getByText("in its workspace").waitFor();
  await inspect(first, "changes");
  const written = first.locator("section.changes", { hasText: "pen, turn" });
  await written.getByRole("button", { name: "Undo" }).click();
  await first.locator("#dialog-text", { hasText: "notes.txt" }).waitFor();
  await inspect(first, "dialog");
  await first.getByRole("button", { name: "OK" }).click();
  await first.getByRole("heading", { name: "Undo of turn" }).waitFor();
  assert.ok(!existsSync(join(project, "notes.txt")));
  await first.locator("#message.shown", { hasText: "is undone; `redo` reverses it" }).waitFor();

  step("an undone turn is not offered again, but redone");
  assert.equal(await written.getByRole("button", { name: "Undo" }).count(), 0);
  await written.getByRole("button", { name: "Redo" }).click();
  await first.locator("#dialog-text", { hasText: "this would redo turn" }).waitFor();
  await first.getByRole("button", { name: "OK" }).click();
  await first.getByRole("heading", { name: "Redo of turn" }).waitFor();
  assert.ok(existsSync(join(project, "notes.txt")));
  await written.getByRole("button", { name: "Undo" }).waitFor();

  step("a session is renamed, exported and forked, and messages are found");
  await first.goto(`${origin}/sessions/${session}`);
  await first.locator(".menu summary", { hasText: "Session" }).click();
  await first.getByRole("button", { name: "Rename" }).click();
  await first.keyboard.type("parser and lexer");
  await first.keyboard.press("Enter");
  await first.getByRole("heading", { name: "parser and lexer" }).waitFor();
  await first.locator(".menu summary", { hasText: "Session" }).click();
  const document_ = await save(first, first.getByRole("button", { name: "Export HTML" }));
  const archive = await save(first, first.getByRole("button", { name: "Export everything" }));
  assert.equal(archive.toString().split("\n").filter(Boolean).length > 10, true);
  await first.getByRole("button", { name: "Fork" }).click();
  await first.waitForURL((at) => at.pathname.startsWith("/sessions/") && !at.pathname.endsWith(session));
  assert.ok((await numbers(first)).length > 10);
  await first.getByRole("link", { name: "Sessions", exact: true }).first().click();
  await first.getByLabel("Search messages").fill("lexer");
  await first.keyboard.press("Enter");
  await first.getByText("2 messages found").waitFor();
  await inspect(first, "found");
  assert.ok((await first.locator("ol.hits mark").count()) > 0, "the words are marked");
  assert.match(first.url(), /q=lexer/, "a link keeps the search");
  await first.locator("ol.hits a").first().focus();
  await first.keyboard.press("Enter");
  await first.locator("#message-3.found").waitFor();
  await first.getByRole("link", { name: "Sessions", exact: true }).first().click();
  await first.locator("ul.sessions li").nth(1).waitFor();
  await inspect(first, "sessions");

  step("the list is filtered, and led by keys; help shows them");
  await first.getByLabel("State").selectOption("failed");
  await first.keyboard.press("Enter");
  await first.getByRole("button", { name: "Search" }).click();
  await first.waitForURL(/state=failed/);
  await first.getByText("No session of Convoke is like this.").waitFor();
  await inspect(first, "none");
  await first.getByRole("link", { name: "Show all" }).click();
  await first.locator("ul.sessions li").nth(1).waitFor();
  await first.locator("#view").focus();
  await first.keyboard.press("j");
  await first.keyboard.press("j");
  assert.equal(await first.evaluate(() => [...document.querySelectorAll("a.row")].indexOf(document.activeElement)), 1);
  await first.keyboard.press("?");
  await first.getByRole("heading", { name: "Keys" }).waitFor();
  await inspect(first, "keys");
  await first.keyboard.press("Escape");
  await first.keyboard.press("k");
  await first.keyboard.press("Enter");
  await first.locator(".workbench").waitFor();

  step("what is chosen in the list of turns is shown beside the conversation, and the address keeps it");
  await first.locator(".request-rows a.row").first().click();
  await first.locator(".pane.inspector .given").waitFor();
  assert.match(first.url(), /inspect=/);
  await first.reload();
  await first.locator(".pane.inspector .given").waitFor();
  await inspect(first, "inspector");
  const right = first.locator('.divider[data-resize="right"]');
  const width = () => first.locator(".pane.inspector").evaluate((it) => it.getBoundingClientRect().width);
  const wide = await width();
  await right.focus();
  await first.keyboard.press("ArrowLeft");
  assert.ok((await width()) > wide, "keys move the border");
  await first.keyboard.press("Enter");
  assert.ok((await width()) < 10, "Enter folds a pane");
  await first.keyboard.press("Enter");
  await first.setViewportSize({ width: 400, height: 800 });
  assert.ok(!(await first.locator("#conversation").isVisible()), "a narrow screen shows one pane");
  await first.getByRole("button", { name: "Conversation", exact: true }).click();
  assert.ok(await first.locator("#conversation").isVisible());
  await first.setViewportSize({ width: 1280, height: 900 });

  step("usage is a page");
  await first.getByRole("link", { name: "Usage", exact: true }).click();
  await first.getByRole("heading", { name: "Usage" }).waitFor();
  await first.getByText("Nothing was counted in this time.").waitFor();
  await inspect(first, "usage");

  step("explain is a page, with skills");
  await first.getByRole("link", { name: "Explain", exact: true }).click();
  await first.getByRole("heading", { name: "Instruction files and skills" }).waitFor();
  assert.ok((await first.getByText("AGENTS.md").count()) > 0);
  assert.ok((await first.getByText("release", { exact: true }).count()) > 0);
  await inspect(first, "explain");
  assert.deepEqual(foreign, [], "foreign requests");
  assert.deepEqual(complaints, [], "errors of the page");

  step("an exported session needs no script and no network");
  const plain = await browser.newContext({ javaScriptEnabled: false, offline: true });
  const alone = await plain.newPage();
  const asks = [];
  alone.on("request", (request) => asks.push(request.url()));
  const file = join(project, "export.html");
  writeFileSync(file, document_);
  await alone.goto(`file://${file}`);
  await alone.getByRole("heading", { name: "parser and lexer" }).waitFor();
  await alone.getByText("Choose a turn or a request").waitFor();
  await alone.locator('a.row[href="#turn-1"]').click();
  const view = alone.locator("section.view#turn-1");
  await view.locator("svg.treemap").waitFor();
  await view.locator(".part-rows a").first().click();
  assert.ok(await view.locator("article:target").isVisible(), "a part is reached within its turn");
  assert.equal(await alone.locator("section.view:visible").count(), 1);
  assert.deepEqual([...new Set(asks.map((it) => it.split("#")[0]))], [`file://${file}`]);
  if (process.env.LOOK) await alone.screenshot({ path: join(process.env.LOOK, "export.png") });

  step("another site can neither show the page nor reach its data");
  const foreigner = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<iframe src="${origin}/"></iframe>`);
  });
  await new Promise((resolve) => foreigner.listen(0, "127.0.0.1", resolve));
  const site = await (await browser.newContext()).newPage();
  await site.goto(`http://127.0.0.1:${foreigner.address().port}/`);
  assert.equal(await site.frameLocator("iframe").getByText("Convoke").count(), 0, "a frame shows nothing");
  const bearer = `Bearer ${token.slice(1)}`;
  const reached = await site.evaluate(
    async ([origin, session, bearer]) => {
      const tries = [
        ["/api/sessions", {}],
        ["/api/sessions", { headers: { Authorization: bearer } }],
        [`/api/sessions/${session}/stream`, { headers: { Authorization: bearer } }],
        [`/api/sessions/${session}/rename`, { method: "POST", headers: { "Content-Type": "text/plain" }, body: '{"name":"taken"}' }],
        [`/api/sessions/${session}/rename`, { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body: '{"name":"taken"}' }],
      ];
      const outcomes = [];
      for (const [path, init] of tries) {
        outcomes.push(await fetch(origin + path, init).then((it) => it.type, () => "refused"));
      }
      return outcomes;
    },
    [origin, session, bearer],
  );
  assert.deepEqual(reached, reached.map(() => "refused"));
  assert.equal(terminal("sessions", "show", session).name ?? "parser and lexer", "parser and lexer");
  foreigner.close();
} finally {
  await browser.close();
  server.kill("SIGTERM");
}

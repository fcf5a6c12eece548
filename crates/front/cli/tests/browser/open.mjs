// Drives `convoke open` in chromium: a session of another program with hostile texts, its requests, the ledger of one, and what
// is written meanwhile. Ends with an error if anything is wrong.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect } from "./checks.mjs";

const { CONVOKE, DIRECTORY, PACKAGES } = process.env;
const { chromium } = createRequire(join(PACKAGES, "package.json"))("playwright-core");
const step = (text) => console.log(`- ${text}`);

const hostile = '</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script> \u001b[2J \u202egnp';
const long = "a long line of output\n".repeat(8_000);
const home = join(DIRECTORY, "home");
mkdirSync(join(DIRECTORY, "project"), { recursive: true });
const project = realpathSync(join(DIRECTORY, "project"));
const id = "5f0c2a9e-0000-4000-8000-000000000001";
const sessions = join(home, ".claude/projects/-project");
mkdirSync(sessions, { recursive: true });
const file = join(sessions, `${id}.jsonl`);

let count = 0;
let parent = null;
/** Returns a line of a transcript of Claude Code. */
function line(type, message, more = {}) {
  count += 1;
  const uuid = `00000000-0000-4000-8000-${String(count).padStart(12, "0")}`;
  const timestamp = new Date(Date.now() - 3_600_000 + count * 1000).toISOString();
  const record = {
    parentUuid: parent, isSidechain: false, type, message, uuid, timestamp, userType: "external", cwd: project,
    sessionId: id, version: "2.1.100", gitBranch: "main", ...more,
  };
  parent = uuid;
  return `${JSON.stringify(record)}\n`;
}
const person = (text) => line("user", { role: "user", content: text });
const returned = (tool_use_id, content, more) =>
  line("user", { role: "user", content: [{ type: "tool_result", tool_use_id, content }] }, more);
/** Returns the line of an answer, whose request has these tokens. */
function answer(content, input) {
  const usage = { input_tokens: input, cache_read_input_tokens: 20_000, cache_creation_input_tokens: 1_500, output_tokens: 300 };
  const message = { id: `msg_${count}`, type: "message", role: "assistant", model: "claude-sonnet-4-5", content, stop_reason: "end_turn", usage };
  return line("assistant", message, { requestId: `req_${count}` });
}
const text = (text) => ({ type: "text", text });
const call = (id, name, input) => ({ type: "tool_use", id, name, input });

const edit = { file_path: join(project, "lexer.rs"), old_string: "let a = 1;", new_string: "let a = 2;" };
const patch = { oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: ["-let a = 1;", "+let a = 2;"] };
const edited = {
  filePath: edit.file_path, oldString: edit.old_string, newString: edit.new_string, originalFile: "let a = 1;\n",
  structuredPatch: [patch], userModified: false, replaceAll: false,
};
writeFileSync(
  file,
  [
    person(`Why does the lexer fail? ${hostile}`),
    answer([text("I run its tests."), call("t1", "Bash", { command: "cargo test -p lexer", description: "Run the tests" })], 700),
    returned("t1", long),
    answer([call("t2", "Edit", edit)], 900),
    returned("t2", "The file has been updated.", { toolUseResult: edited }),
    answer([text(`It counted from one. ${hostile}`)], 400),
  ].join(""),
);
const lines = readFileSync(file, "utf8");

const env = { ...process.env, HOME: DIRECTORY };
step("without a session there is a clear message");
const none = spawnSync(CONVOKE, ["open", "--no-browser", "--home", join(DIRECTORY, "nobody")], { cwd: project, env, encoding: "utf8" });
assert.equal(none.status, 2, none.stderr);
assert.match(none.stderr, /no program has a session of this directory.*convoke sessions list --all/s);

const server = spawn(CONVOKE, ["open", "--no-browser", "--home", home], { cwd: project, env, stdio: ["ignore", "pipe", "inherit"] });
const url = await new Promise((resolve, reject) => {
  let said = "";
  server.stdout.on("data", (data) => {
    said += data;
    if (said.includes("\n")) resolve(said.trim());
  });
  server.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
});
const { origin, pathname } = new URL(url);
assert.equal(pathname, `/programs/claude/${id}`);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"],
});
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(30_000);
  const complaints = [];
  context.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  context.on("weberror", (error) => complaints.push(String(error.error())));
  context.on("request", (request) => {
    const at = new URL(request.url());
    if (at.protocol !== "blob:" && at.origin !== origin) complaints.push(request.url());
  });
  const page = await context.newPage();

  step("the latest session of this directory is opened: its requests, and what was said and done");
  await page.goto(url);
  await page.getByRole("heading", { name: /^Why does the lexer fail/ }).waitFor();
  assert.equal(await page.locator(".request-rows li").count(), 3);
  assert.deepEqual(await page.locator(".step-row.message strong").allTextContents(), ["you", "claude", "claude"]);
  const tool = page.locator("details.tool", { hasText: "cargo test -p lexer" });
  await tool.locator("summary").click();
  await tool.getByText("command: cargo test -p lexer").waitFor();
  await tool.locator("button.more").click();
  await page.waitForFunction((least) => (document.querySelector("details.tool[open]")?.textContent ?? "").length > least, 64 * 1024);
  const change = page.locator("details.step", { hasText: "lexer.rs" }).last();
  await change.locator("summary").click();
  assert.equal(await change.locator(".patch .added").first().textContent(), "let a = 2;");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("#view img, #view script").count(), 0);
  await inspect(page, "other-session");

  step("what the program writes meanwhile appears, and what is unfolded stays so");
  appendFileSync(file, person("And the parser?") + answer([call("t3", "Read", { file_path: "parser.rs" })], 500));
  await page.locator(".step-row", { hasText: "And the parser?" }).waitFor();
  await page.locator("#request-4").waitFor();
  await page.locator("details.tool .badge.waits").waitFor();
  appendFileSync(file, returned("t3", "fn parse() {}") + answer([text("The parser is fine.")], 500));
  await page.locator(".step-row", { hasText: "The parser is fine." }).waitFor();
  await page.locator("details.tool .badge.waits").waitFor({ state: "detached" });
  assert.ok(await change.evaluate((it) => it.open));
  assert.equal(await page.locator(".step-row", { hasText: "And the parser?" }).count(), 1);

  step("the chart of tokens leads to a request");
  await page.locator('svg.chart rect.hit[data-inspect$="/requests/1"]').click();
  await page.locator(".pane.inspector").getByRole("heading", { name: /^Request 1/ }).waitFor();

  step("a request is opened by keys: its grade, its parts and its text");
  await page.locator("#request-2 a").first().focus();
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement?.closest("li")?.id), "request-3");
  await page.keyboard.press("Enter");
  await page.locator(".pane.inspector").getByRole("heading", { name: /^Request 3/ }).waitFor();
  await page.locator(".pane.inspector .grade").waitFor();
  await inspect(page, "other-inspector");
  await page.getByRole("link", { name: "Open on its own page" }).click();
  await page.getByRole("heading", { name: /^Request 3/, level: 1 }).waitFor();
  const sections = await page.locator(".scroller h2.section").allTextContents();
  assert.deepEqual(sections.map((it) => it.split(" ")[0]), ["user", "assistant", "tool", "assistant", "tool", "not"]);
  await inspect(page, "other-request");
  await page.getByRole("button", { name: "largest first" }).click();
  const largest = page.locator(".part-rows li").first();
  await largest.filter({ hasText: "tool" }).waitFor();
  assert.match(await largest.getAttribute("class"), /k-results/);
  await largest.locator("a").click();
  const part = page.locator("article.piece.chosen");
  await part.locator("pre", { hasText: "a long line of output" }).waitFor();
  await part.locator("button.unfold").click();
  await part.locator("button.more").waitFor();
  assert.equal(await page.locator("#view img, #view script").count(), 0);

  step("a narrow screen shows one pane at a time");
  await page.setViewportSize({ width: 400, height: 800 });
  await page.getByRole("link", { name: /^claude:/ }).click();
  await page.locator("#request-3.found").waitFor();
  assert.ok(await page.locator("#request-3").isVisible(), "the link leads to the request");
  assert.ok(!(await page.locator("#other-steps").isVisible()));
  await page.getByRole("button", { name: "Conversation", exact: true }).click();
  assert.ok(await page.locator("#other-steps").isVisible());
  await page.setViewportSize({ width: 1280, height: 900 });

  step("the first page lists it, and the whole row is the link");
  await page.getByRole("link", { name: "Sessions", exact: true }).first().click();
  const row = page.locator("ul.rows li", { hasText: "Why does the lexer fail" });
  await row.getByText("5 requests").waitFor();
  await inspect(page, "other-sessions");
  await page.getByRole("link", { name: "Usage", exact: true }).click();
  await page.getByRole("heading", { name: "By model" }).waitFor();
  await page.locator(".usage-bars", { hasText: "claude-sonnet-4-5" }).waitFor();
  await page.getByText("As a table").click();
  await inspect(page, "other-usage");
  await page.goBack();
  await row.click({ position: { x: 5, y: 5 } });
  await page.getByRole("heading", { name: /^Why does the lexer fail/ }).waitFor();
  await page.goto(`${origin}/programs/claude/nothing`);
  await page.locator("p.problem", { hasText: "no session of claude" }).waitFor();
  assert.ok(readFileSync(file, "utf8").startsWith(lines), "nothing is written into the program's file");
  assert.deepEqual(complaints.filter((it) => !/404/.test(it)), []);
} finally {
  await browser.close();
  server.kill("SIGTERM");
}

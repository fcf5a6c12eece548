// Drives the page in chromium: a conversation by clicks and keys, two tabs, a server that is killed and restarted, the
// inspector against the terminal, hostile texts, and what a screen reader needs. Ends with an error if anything is wrong.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { CONVOKE, PACKAGES, DIRECTORY, IMAGES } = process.env;
const load = createRequire(join(PACKAGES, "package.json"));
const { chromium } = load("playwright-core");
const axe = readFileSync(join(PACKAGES, "axe-core/axe.min.js"), "utf8");

const project = join(DIRECTORY, "project");
const config = process.env.CONVOKE_CONFIG_DIR;
mkdirSync(project, { recursive: true });
mkdirSync(config, { recursive: true });
const go = join(project, "go");
writeFileSync(
  join(project, "convoke.toml"),
  `name = "parser review"
task = "Review the parser"
[[member]]
name = "kim"
human = true
[[member]]
name = "max"
agent = "echo"
instructions = "You review code. Name the file and the line."
[[member]]
name = "slow"
agent = "slow"
`,
);
writeFileSync(join(project, "AGENTS.md"), "# Parser\n\nUse the lexer of this repository.\n");
// "slow" answers when there is a file named "go".
writeFileSync(
  join(config, "agents.toml"),
  `[agent.echo]
kind = "plain"
permissions = "full"
command = "/bin/sh"
args = ["-c", "echo 'parser.rs:12: an empty token is accepted.'"]
[agent.slow]
kind = "plain"
permissions = "full"
command = "/bin/sh"
args = ["-c", "echo working; while ! [ -e go ]; do sleep 0.1; done; echo done"]
`,
);

/** Starts the server and returns its address. */
async function serve() {
  const server = spawn(CONVOKE, ["serve", "--port", "0"], { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((resolve, reject) => {
    let text = "";
    server.stdout.on("data", (data) => {
      text += data;
      if (text.includes("\n")) resolve(text.trim());
    });
    server.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { server, url, origin: new URL(url).origin, token: new URL(url).hash };
}

const terminal = (...args) => JSON.parse(execFileSync(CONVOKE, [...args, "--json"], { cwd: project, maxBuffer: 1 << 28 }));
const step = (text) => console.log(`- ${text}`);

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
    // A connection that is refused while the server is down is not a fault of the page.
    if (message.type() === "error" && !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY|ERR_CONNECTION_RESET|401/.test(message.text())) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));

  /** Looks for what a screen reader would miss, in both themes, and for what does not fit a small screen. */
  async function inspect(page, name) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document));
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      assert.deepEqual(
        serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 200))]),
        [],
        `${name}, ${colorScheme}`,
      );
    }
    await page.emulateMedia({ colorScheme: "light" });
    for (const width of [360, 3840]) {
      await page.setViewportSize({ width, height: 900 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} wide in ${width}`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    if (IMAGES && ["conversation", "turn", "diff"].includes(name)) {
      mkdirSync(IMAGES, { recursive: true });
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: join(IMAGES, `${name}.png`) });
    }
  }

  step("a conversation is started by a click and led by keys");
  const first = await context.newPage();
  await first.goto(url);
  await first.getByRole("heading", { name: "Sessions" }).waitFor();
  assert.equal(await first.evaluate(() => location.hash), "", "the token leaves the address");
  await first.getByRole("button", { name: "New conversation" }).click();
  const say = first.getByLabel("Message", { exact: true });
  await say.waitFor();
  await say.pressSequentially("@m");
  await first.locator("#completions li", { hasText: "max" }).waitFor();
  await say.press("Tab");
  assert.equal(await say.inputValue(), "@max ");
  await say.pressSequentially("What of the parser?");
  await say.press("Control+Enter");
  await first.locator("li.message.agent", { hasText: "an empty token is accepted" }).waitFor();
  const session = first.url().split("/").pop();

  step("a second tab gets the token of the first, and sees the same");
  const second = await context.newPage();
  await second.goto(`${origin}/sessions/${session}`);
  await second.locator("li.message.agent").waitFor();
  await second.getByLabel("Message", { exact: true }).fill("And the lexer?");
  await second.getByRole("button", { name: "Send" }).click();
  for (const page of [first, second]) {
    await page.locator("#message-4").waitFor();
    const numbers = await page.locator("li.message").evaluateAll((all) => all.map((it) => it.dataset.number));
    assert.deepEqual(numbers, ["1", "2", "3", "4"]);
  }
  await inspect(second, "conversation");

  step("a running turn is seen as it is written, in both tabs");
  await say.fill("@slow Take your time");
  await say.press("Control+Enter");
  for (const page of [first, second]) {
    await page.locator("#standing .running", { hasText: "slow" }).waitFor();
  }

  step("a turn is cancelled and tried again");
  await first.getByRole("button", { name: "Cancel", exact: true }).first().click();
  await second.getByRole("button", { name: "Retry" }).click();
  await first.locator("#standing .running", { hasText: "slow" }).waitFor();

  step("the server is killed in the middle of a turn");
  server.kill("SIGKILL");
  await new Promise((resolve) => server.once("exit", resolve));
  await first.getByText("not connected").waitFor();
  ({ server, url, origin, token } = await serve());
  origins.add(origin);
  await first.goto(`${origin}/sessions/${session}${token}`);
  await second.close();
  await first.getByText("interrupted").waitFor();
  writeFileSync(go, "");
  await first.getByRole("button", { name: "Resume" }).last().click();
  await first.locator("#message-6", { hasText: "done" }).waitFor();
  const numbers = await first.locator("li.message").evaluateAll((all) => all.map((it) => it.dataset.number));
  assert.deepEqual(numbers, ["1", "2", "3", "4", "5", "6"], "nothing is lost and nothing comes twice");

  step("hostile texts run nothing");
  const hostile = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \u001b[2J \u202egnp ${"x".repeat(700_000)}`;
  await first.getByLabel("Message", { exact: true }).fill(`@max ${hostile}`);
  await first.getByRole("button", { name: "Send" }).click();
  await first.locator("#message-8").waitFor();
  assert.equal(await first.evaluate(() => window.hacked), undefined);
  assert.equal(await first.locator("#message-7 img, #message-7 script").count(), 0);
  await first.locator("#message-7 button.more").first().waitFor();

  step("the inspector has the figures of the terminal");
  await first.locator("#message-4").getByRole("link", { name: "turn 2" }).click();
  await first.getByRole("heading", { name: "Turn 2: max" }).waitFor();
  const stored = terminal("sessions", "show", session, "--turn", "2");
  const used = stored.ledger.usedBytes;
  assert.equal(await first.locator(".used-bytes").textContent(), used.toLocaleString("en"));
  for (const picture of ["svg.bar:not(.prefix)", "svg.treemap"]) {
    const bytes = await first.locator(`${picture} rect`).evaluateAll((all) => all.map((it) => Number(it.dataset.bytes)));
    assert.equal(bytes.reduce((sum, it) => sum + it, 0), used, picture);
  }
  const cells = await first.locator("td[data-bytes]").evaluateAll((all) => all.map((it) => Number(it.dataset.bytes)));
  assert.deepEqual(cells, stored.ledger.entries.map((entry) => entry.keptBytes));
  const part = stored.ledger.entries.findIndex((entry) => entry.source.kind === "message");
  await first.locator(`svg.treemap rect[data-part="${part}"]`).click();
  const [from, to] = stored.ledger.entries[part].range;
  const exact = Buffer.from(stored.prompt).subarray(from, to).toString();
  assert.equal(await first.locator(`#part-${part}.found`).textContent(), exact);
  await inspect(first, "turn");

  step("a downloaded prompt has the stored hash");
  const [download] = await Promise.all([first.waitForEvent("download"), first.getByRole("button", { name: "Download" }).last().click()]);
  const hash = createHash("sha256").update(readFileSync(await download.path())).digest("hex");
  assert.equal(hash, stored.attempts[0].prompt.hash);

  step("two turns are compared, and every view can be reached by keys");
  await first.getByRole("link", { name: "turn 1", exact: true }).focus();
  await first.keyboard.press("Enter");
  await first.getByRole("heading", { name: "What a cache can reuse" }).waitFor();
  const difference = terminal("sessions", "diff", session, "1", "2");
  assert.match(await first.locator("#reusable").textContent(), new RegExp(`^${difference.reusableBytes.toLocaleString("en")} bytes`));
  await inspect(first, "diff");
  await first.goBack();
  await first.getByRole("heading", { name: "Turn 2: max" }).waitFor();

  step("sessions are searched, and explain is a page");
  await first.getByRole("link", { name: "Sessions", exact: true }).first().click();
  await first.getByLabel("Search messages").fill("lexer");
  await first.keyboard.press("Enter");
  await first.getByText("1 message found").waitFor();
  await inspect(first, "sessions");
  await first.getByRole("link", { name: "Explain", exact: true }).click();
  await first.getByRole("heading", { name: "What agents load here" }).waitFor();
  await inspect(first, "explain");

  assert.deepEqual(foreign, [], "foreign requests");
  assert.deepEqual(complaints, [], "errors of the page");
} finally {
  await browser.close();
  server.kill("SIGTERM");
}

// Draws the full-screen chat: it runs in a terminal without a window, and its screen becomes a picture. Ends with an error if the
// chat does not show what it should.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { CONVOKE, DIRECTORY, IMAGES, PACKAGES } = process.env;
const { chromium } = createRequire(join(PACKAGES, "package.json"))("playwright-core");
const socket = join(DIRECTORY, "tmux");
const env = { ...process.env, HOME: DIRECTORY, TERM: "xterm-256color", LANG: "C.UTF-8" };
const tmux = (...args) => execFileSync("tmux", ["-S", socket, ...args], { env, encoding: "utf8" });

/** Waits until the screen has a text. */
async function until(text) {
  for (let tries = 0; tries < 300; tries += 1) {
    const screen = tmux("capture-pane", "-p");
    if (screen.includes(text)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`the chat never showed ${JSON.stringify(text)}:\n${tmux("capture-pane", "-p")}`);
}

const colours = ["#1c2128", "#a3241d", "#1a6b3c", "#8a4b00", "#0b57b0", "#74499e", "#1e7380", "#57606a"];

/** Returns a screen with its colours as HTML. */
function html(screen) {
  const escaped = (text) => text.replace(/[&<>]/g, (it) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[it]);
  let style = {};
  return screen.split(/(\u001b\[[0-9;]*m)/).map((piece) => {
    const codes = /^\u001b\[([0-9;]*)m$/.exec(piece)?.[1].split(";").map(Number);
    if (!codes) {
      const { colour, bold, dim, reverse } = style;
      const css = [colour && `color:${colour}`, bold && "font-weight:700", dim && "opacity:.65", reverse && "background:#e1e5ea"];
      return `<span style="${css.filter(Boolean).join(";")}">${escaped(piece)}</span>`;
    }
    for (const code of codes) {
      if (code === 0) style = {};
      else if (code === 1) style = { ...style, bold: true };
      else if (code === 2) style = { ...style, dim: true };
      else if (code === 7) style = { ...style, reverse: true };
      else if (code >= 30 && code <= 37) style = { ...style, colour: colours[code - 30] };
      else if (code >= 90 && code <= 97) style = { ...style, colour: colours[code - 90] };
      else if (code === 39) style = { ...style, colour: undefined };
    }
    return "";
  }).join("");
}

const line = `${CONVOKE} chat --rehearse`;
tmux("new-session", "-d", "-x", "100", "-y", "34", line);
try {
  await until("Can we ship login.py tonight?");
  tmux("send-keys", "-l", "Can we ship login.py tonight?");
  tmux("send-keys", "Enter");
  await until("This is an hour of work.");
  await until("your turn");
  const screen = tmux("capture-pane", "-e", "-p");
  if (IMAGES) {
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    });
    const page = await browser.newPage({ viewport: { width: 1000, height: 700 } });
    await page.setContent(`<pre style="font:14px/1.35 'DejaVu Sans Mono',monospace;margin:16px;color:#1c2128">${html(screen)}</pre>`);
    mkdirSync(IMAGES, { recursive: true });
    await page.locator("pre").screenshot({ path: join(IMAGES, "chat.png") });
    await browser.close();
  }
} finally {
  tmux("kill-server");
}

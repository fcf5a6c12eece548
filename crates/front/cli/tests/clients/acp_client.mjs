// The TypeScript SDK of ACP as an editor, against the command that the arguments are. The first argument is the
// directory of the SDK.
import { spawn } from "node:child_process";
import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, program, ...args] = process.argv.slice(2);
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(
  pathToFileURL(`${sdk}/dist/v1/stable/acp.js`).href
);

const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", resolve));
const kinds = [];
let words = "";
const editor = client({ name: "test" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const chosen = params.options.find((option) => option.kind === "reject_once");
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    kinds.push(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") words += update.content.text;
  });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

await editor.connectWith(stream, async (agent) => {
  const { session } = methods.agent;
  const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
  const hello = await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities });
  assert.equal(hello.protocolVersion, 1);
  assert.deepEqual(hello.authMethods, []);
  const cwd = process.cwd();
  const { sessionId } = await agent.request(session.new, { cwd, mcpServers: [] });
  const prompt = (...blocks) => agent.request(session.prompt, { sessionId, prompt: blocks });
  const text = (text) => ({ type: "text", text });
  assert.equal((await prompt(text("Hello, team"))).stopReason, "end_turn");
  assert.ok(words.length > 0);
  const link = { type: "resource_link", name: "notes.md", uri: "file:///notes.md" };
  assert.equal((await prompt(text("Look at this:"), link)).stopReason, "end_turn");
  const running = prompt(text("Again"));
  await agent.notify(session.cancel, { sessionId });
  await agent.notify(session.cancel, { sessionId });
  assert.ok(["cancelled", "end_turn"].includes((await running).stopReason));
  kinds.length = 0;
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  assert.ok(kinds.includes("user_message_chunk") && kinds.includes("agent_message_chunk"), `${kinds}`);
  const { sessions } = await agent.request(session.list, { cwd });
  assert.deepEqual(sessions.map((it) => it.sessionId), [sessionId]);
  await agent.request(session.close, { sessionId });
  const refused = { code: -32602 };
  await assert.rejects(agent.request(session.new, { cwd: "relative", mcpServers: [] }), refused);
});
child.stdin.end();
assert.equal(await ended, 0);

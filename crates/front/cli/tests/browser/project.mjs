// A project whose agents do what the test of the page needs, and the server over it.

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { CONVOKE, DIRECTORY, MODEL } = process.env;
const config = process.env.CONVOKE_CONFIG_DIR;
const bin = join(DIRECTORY, "bin");
export const project = join(DIRECTORY, "project");
/** The member "slow" answers when this file is there. */
export const go = join(project, "go");

const members = {
  max: 'agent = "echo"\ninstructions = "You review code. Name the file and the line."',
  slow: 'agent = "slow"',
  ask: 'agent = "claude"',
  pen: 'agent = "pen"',
  copy: 'agent = "pen"\nworkspace = "own"',
  short: 'agent = "echo"\nmax-bytes = 1800\nwindow = 20',
  flood: 'agent = "flood"',
  model: 'agent = "api"',
};

/** @param {string} name @param {string} script */
const shell = (name, script) =>
  `[agent.${name}]\nkind = "plain"\npermissions = "full"\ncommand = "/bin/sh"\nargs = ["-c", ${JSON.stringify(script)}]\n`;

/** Speaks the protocol of Claude Code, asks before it makes a file, and reports the answer. */
const asking = `#!/bin/sh
read message
case "$message" in *again*) command='touch built.txt';; *) command='make all';; esac
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
echo '{"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"'"$command"'"}}}'
read answer
case "$answer" in *'"behavior":"allow"'*) touch built.txt; said=allowed;; *) said=refused;; esac
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I was '$said'."}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"I was '$said'.","session_id":"s1","total_cost_usd":0.0123}'
`;

/** Writes the project, its agents and the user's own files. */
export function prepare() {
  for (const directory of [join(project, "src"), join(project, ".agents/skills/release"), config, bin]) {
    mkdirSync(directory, { recursive: true });
  }
  const team = Object.entries(members).map(([name, settings]) => `[[member]]\nname = "${name}"\n${settings}\n`);
  writeFileSync(
    join(project, "convoke.toml"),
    `name = "parser review"\ntask = "Review the parser"\n[[member]]\nname = "kim"\nhuman = true\n${team.join("")}`,
  );
  writeFileSync(join(project, "AGENTS.md"), "# Parser\n\nUse the lexer of this repository.\n");
  writeFileSync(
    join(project, ".agents/skills/release/SKILL.md"),
    "---\nname: release\ndescription: How a release of the parser is made.\n---\n\nTag it.\n",
  );
  writeFileSync(join(project, "src/parser.rs"), "fn parse() {\n\ttoken();\n}\n");
  writeFileSync(
    join(config, "agents.toml"),
    shell("echo", "echo 'parser.rs:12: an empty token is accepted.'") +
      shell("slow", "echo working; while ! [ -e go ]; do sleep 0.1; done; echo done") +
      shell("pen", "echo 'a note' >> notes.txt; echo 'I wrote a note.'") +
      shell("flood", "head -c 10000000 /dev/zero | tr '\\0' 'x'; echo; echo the end") +
      '[agent.claude]\npermissions = "ask"\n' +
      `[agent.api]\nbase-url = "${MODEL}/v1"\nmodel = "m"\ncontext-window = 128000\n`,
  );
  const claude = join(bin, "claude");
  writeFileSync(claude, asking);
  chmodSync(claude, 0o755);
}

const env = { ...process.env, HOME: DIRECTORY, PATH: `${bin}:${process.env.PATH}` };

/** Starts the server and returns its address. */
export async function serve() {
  const server = spawn(CONVOKE, ["serve"], { cwd: project, env, stdio: ["ignore", "pipe", "inherit"] });
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

/** Runs a command of the terminal and returns its JSON. */
export const terminal = (...args) =>
  JSON.parse(execFileSync(CONVOKE, [...args, "--json"], { cwd: project, env, maxBuffer: 1 << 28 }));

// Writes the npm packages of one platform as directories: node pack.js VERSION PLATFORM BINARY OUTPUT
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const [version, platform, binary, output] = process.argv.slice(2);
const root = path.join(__dirname, "..", "..");
const platforms = JSON.parse(fs.readFileSync(path.join(__dirname, "platforms.json"), "utf8"));
const described = platforms[platform];
if (!described) {
  console.error(`pack.js: ${platform} is not in packaging/npm/platforms.json`);
  process.exit(1);
}

const common = {
  version,
  license: "MIT OR Apache-2.0",
  description: "Runs a conversation between people and coding agents, and shows exactly what each was sent.",
};

function write(name, manifest, files) {
  const directory = path.join(output, name);
  fs.mkdirSync(path.join(directory, "bin"), { recursive: true });
  fs.writeFileSync(
    path.join(directory, "package.json"),
    JSON.stringify({ name, ...common, ...manifest }, null, 2) + "\n",
  );
  for (const [from, to] of files) {
    fs.copyFileSync(from, path.join(directory, to));
    fs.chmodSync(path.join(directory, to), to.startsWith("bin/") ? 0o755 : 0o644);
  }
}

const licenses = ["LICENSE-MIT", "LICENSE-APACHE"].map((name) => [path.join(root, name), name]);
const optionalDependencies = Object.fromEntries(
  Object.keys(platforms).map((name) => [`convoke-${name}`, version]),
);

write(
  "convoke",
  {
    bin: { convoke: "bin/convoke.js" },
    engines: { node: ">=18" },
    files: ["bin"],
    keywords: ["agents", "claude", "codex", "gemini", "prompt"],
    optionalDependencies,
  },
  [[path.join(__dirname, "bin", "convoke.js"), "bin/convoke.js"], [path.join(root, "README.md"), "README.md"], ...licenses],
);
write(
  `convoke-${platform}`,
  { os: [described.os], cpu: [described.cpu], libc: [described.libc], files: ["bin"] },
  [[binary, "bin/convoke"], ...licenses],
);

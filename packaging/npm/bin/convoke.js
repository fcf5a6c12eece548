#!/usr/bin/env node
// Runs the binary of this platform, which npm installed as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

const platform = `${process.platform}-${process.arch}`;

let binary;
try {
  binary = require.resolve(`convoke-${platform}/bin/convoke`);
} catch {
  console.error(
    `convoke: there is no binary for ${platform}. If this platform is supported, optional dependencies ` +
      "were left out: install again without --omit=optional. Otherwise build it: cargo install --path crates/front/cli",
  );
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });

// A signal from the terminal reaches the binary as well; the launcher waits for it to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => {
    if (signal === "SIGTERM" || signal === "SIGHUP") child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`convoke: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + (os.constants.signals[signal] ?? 0) : code);
});

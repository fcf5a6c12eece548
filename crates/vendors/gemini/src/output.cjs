// The program exits without flushing what it has written.
for (const stream of [process.stdout, process.stderr]) {
  stream?._handle?.setBlocking?.(true);
}

// The program does not report why its model stopped, nor the tokens of answers that it gave up.
const send = globalThis.fetch;
const open = new Set();

globalThis.fetch = async (...request) => {
  const url = String(request[0]?.url ?? request[0]);
  if (!url.includes(":streamGenerateContent")) return send(...request);
  write({ type: "request" });
  const response = await send(...request);
  read(response.clone());
  return response;
};

async function read(response) {
  const answer = { type: "answer", reason: null, usage: null };
  const event = (line) => {
    if (!line.startsWith("data:")) return;
    try {
      const sent = JSON.parse(line.slice(5));
      const data = sent.response ?? sent;
      const reason = data.candidates?.[0]?.finishReason ?? data.promptFeedback?.blockReason;
      answer.reason = reason ?? answer.reason;
      answer.blocked ||= Boolean(data.promptFeedback?.blockReason);
      answer.usage = data.usageMetadata ?? answer.usage;
    } catch {
      // Not JSON, which the program reports.
    }
  };
  open.add(answer);
  try {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const piece of response.body) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r\n|\n|\r/);
      rest = lines.pop();
      lines.forEach(event);
    }
    event(rest);
  } catch {
    // The program gave the answer up.
  }
  tell(answer);
}

function tell(answer) {
  if (open.delete(answer)) write(answer);
}

function write(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

process.on("exit", () => [...open].forEach(tell));

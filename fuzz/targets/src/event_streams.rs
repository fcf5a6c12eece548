use convoke_agent::TurnResult;
use convoke_agent::ending::{Ending, Exit};
use convoke_agent::stream::lines::{Line, LineSplitter};
use convoke_agent::stream::{EventReader, TurnPhase};
use convoke_protocol::verdict::Verdict;
use convoke_vendor_claude::stream::Claude;
use convoke_vendor_codex::stream::app::CodexApp;
use convoke_vendor_codex::stream::exec::CodexExec;
use convoke_vendor_gemini::stream::Gemini;

const REPLY_LIMIT: usize = 1000;
const LINE_LIMIT: usize = 4000;

/// Reads any output of the CLI that the first byte selects: the reply keeps its limit, pieces of the
/// output give the same result as the whole, and a turn is done only if the agent has closed it.
pub fn event_streams(bytes: &[u8]) -> bool {
    let Some((&format, output)) = bytes.split_first() else { return false };
    let (result, phase, session) = read(format, output, output.len().max(1));
    assert!(result.reply.len() <= REPLY_LIMIT, "{} bytes of reply", result.reply.len());
    if result.verdict == Verdict::Done {
        assert_ne!(phase, TurnPhase::Running, "a turn is closed before it is done");
    }
    for size in [1, 7, 61] {
        let pieces = read(format, output, size);
        assert_eq!(pieces, (result.clone(), phase, session.clone()), "pieces of {size} bytes");
    }
    result.verdict == Verdict::Done
}

/// Reads an output in pieces, and returns the result, the phase before the end, and the session's id.
fn read(format: u8, output: &[u8], size: usize) -> (TurnResult, TurnPhase, Option<String>) {
    let mut reader = reader(format);
    let mut lines = LineSplitter::json(LINE_LIMIT);
    let mut line = |line: Line<'_>| {
        reader.line_lacks(line.left_out);
        reader.line(line.bytes, &mut |_| {});
    };
    for piece in output.chunks(size) {
        lines.push(piece, &mut line);
    }
    lines.finish(&mut line);
    let phase = reader.phase();
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    let result = reader.finish(&ending, &mut |_| {});
    (result, phase, reader.session().map(str::to_owned))
}

fn reader(format: u8) -> Box<dyn EventReader> {
    match format % 4 {
        0 => Box::new(Claude::new(REPLY_LIMIT)),
        1 => Box::new(CodexExec::new(REPLY_LIMIT)),
        2 => {
            let mut reader = CodexApp::new(REPLY_LIMIT);
            reader.thread_is("t", None, &mut |_| {});
            Box::new(reader)
        }
        _ => Box::new(Gemini::new(REPLY_LIMIT)),
    }
}

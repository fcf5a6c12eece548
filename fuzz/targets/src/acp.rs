use convoke_agent::TurnResult;
use convoke_agent::adapter::acp::{Session, SessionSettings};
use convoke_agent::ending::{Ending, Exit};
use convoke_agent::process::{Decision, Dialogue, Input};
use convoke_agent::stream::TurnPhase;
use convoke_agent::stream::acp::Acp;
use convoke_agent::stream::lines::{Line, LineSplitter};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Verdict;
use serde_json::Value;

const REPLY_LIMIT: usize = 1000;
const LINE_LIMIT: usize = 4000;

/// Reads any output of an ACP agent: what is written to the agent is JSON lines, the reply keeps its limit,
/// pieces of the output give the same result as the whole, and a turn is done only if the agent has closed it.
pub fn acp(output: &[u8]) -> bool {
    let whole = read(output, output.len().max(1));
    let (result, phase, _) = &whole;
    assert!(result.reply.len() <= REPLY_LIMIT, "{} bytes of reply", result.reply.len());
    if result.verdict == Verdict::Done {
        assert_eq!(*phase, TurnPhase::Over, "a turn is closed before it is done");
    }
    for size in [1, 7, 61] {
        assert_eq!(read(output, size), whole, "pieces of {size} bytes");
    }
    result.verdict == Verdict::Done
}

/// Reads an output in pieces, refuses every question, and returns the result, the phase before the end, and what
/// was written to the agent.
fn read(output: &[u8], size: usize) -> (TurnResult, TurnPhase, Vec<u8>) {
    let settings = SessionSettings {
        prompt: vec!["hello".to_owned()],
        cwd: "/work".into(),
        mode: Some("plan".to_owned()),
        ..SessionSettings::default()
    };
    let mut session = Session::new(Acp::new(REPLY_LIMIT), settings);
    let mut written = Vec::new();
    let mut write = |input: Input| {
        for line in input.bytes.split_inclusive(|&byte| byte == b'\n') {
            let message: Value = serde_json::from_slice(line).expect("a line is JSON");
            assert_eq!(message["jsonrpc"], "2.0");
        }
        written.extend(input.bytes);
    };
    write(session.open());
    let mut lines = LineSplitter::json(LINE_LIMIT);
    let mut line = |line: Line<'_>| {
        session.reader_mut().line_lacks(line.left_out);
        let mut asked = Vec::new();
        write(session.line(line.bytes, &mut |event| {
            if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
                asked.push(question.id);
            }
        }));
        for question in asked {
            write(session.answer(&question, Decision::Refused, &mut |_| {}));
        }
    };
    for piece in output.chunks(size) {
        lines.push(piece, &mut line);
    }
    lines.finish(&mut line);
    let phase = session.reader().phase();
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    let result = session.finish(&ending, &mut |_| {});
    (result, phase, written)
}

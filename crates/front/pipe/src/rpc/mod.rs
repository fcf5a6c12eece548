//! `convoke rpc`: keeps a conversation for a client, over JSON-RPC 2.0, one message per line.
//!
//! The methods are those of the context manager by name, with positional parameters, and `configure`,
//! `stripAllMarkers` and `scan`. Notifications are written before the response to the call that caused them.

mod envelope;
mod methods;
mod params;

use std::io::{self, BufRead, Write};

use convoke_core::Millis;
use convoke_core::marker::TextPolicy;

use self::envelope::{InvalidLine, RpcCall, read_call};
use self::methods::Server;
use crate::lines::lines;

/// Answers calls until the input ends. `now` returns the time for snapshots. A line of more than
/// `max_line_bytes` is answered with an error.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    text: TextPolicy,
    max_line_bytes: u64,
    now: impl Fn() -> Millis,
) -> io::Result<()> {
    let mut server = Server::new(text);
    for line in lines(input, max_line_bytes) {
        let call = match line?.bytes {
            Ok(bytes) => read_call(&bytes),
            Err(too_long) => Err(InvalidLine::too_long(&too_long)),
        };
        let response = match call {
            Ok(RpcCall { id, method, params }) => {
                let result = server.call(&method, params, &now);
                server.events().try_for_each(|event| write_line(&mut output, &event))?;
                // A call without an id is a notification, which gets no answer.
                id.map(|id| envelope::response(&id, result))
            }
            Err(InvalidLine { id, error }) => Some(envelope::response(&id, Err(error))),
        };
        if let Some(response) = response {
            write_line(&mut output, &response)?;
        }
        output.flush()?;
    }
    Ok(())
}

fn write_line(output: &mut impl Write, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes())?;
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_answered_with_an_error_and_the_next_is_read() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(2000));
        let good = r#"{"jsonrpc":"2.0","id":2,"method":"stripAllMarkers","params":["a"]}"#;
        let input = format!("{long}\n{good}\n");
        let mut output = Vec::new();
        serve(input.as_bytes(), &mut output, TextPolicy::Preserve, 1000, || Millis(0)).unwrap();
        let answers = String::from_utf8(output).unwrap();
        let answers: Vec<serde_json::Value> =
            answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers[0]["error"]["code"], -32700);
        let message = answers[0]["error"]["message"].as_str().unwrap();
        assert!(message.contains("the limit is 1000 bytes"), "{message}");
        assert_eq!(answers[1]["result"], "a");
    }
}

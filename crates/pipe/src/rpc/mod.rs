//! `convoke rpc`: a conversation kept for a client, over JSON-RPC 2.0, one message a line.
//!
//! The methods are those of the context manager (002) by name, with positional parameters, and
//! `configure`, `stripAllMarkers` and `scan`. What the hooks say is written as notifications before the
//! response of the call that caused them.

mod envelope;
mod methods;
mod params;

use std::io::{self, BufRead, Write};

use convoke_core::marker::TextPolicy;

use self::envelope::{Call, Failure, read_call};
use self::methods::Server;
use crate::lines::lines;

/// Answers calls until the input ends. `now` gives milliseconds since 1970, for snapshots.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    text: TextPolicy,
    now: impl Fn() -> i64,
) -> io::Result<()> {
    let mut server = Server::new(text);
    for line in lines(input) {
        let response = match read_call(&line?.bytes) {
            Ok(Call { id, method, params }) => {
                let result = server.call(&method, params, &now);
                server.events().try_for_each(|event| write_line(&mut output, &event))?;
                // A call without an id is a notification: nobody waits for an answer.
                id.map(|id| envelope::response(&id, result))
            }
            Err(Failure { id, error }) => Some(envelope::response(&id, Err(error))),
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

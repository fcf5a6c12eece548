//! Serves a script and prints every request until it is interrupted:
//! `cargo run -p convoke-rehearsal --example serve -- script.toml`.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::Path;
use std::time::Duration;

use convoke_rehearsal::{Script, start};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script = match std::env::args().nth(1) {
        Some(path) => Script::load(Path::new(&path))?,
        None => Script::default(),
    };
    let server = start(script).await?;
    println!("{}", server.base_url());
    let mut shown = 0;
    loop {
        for request in server.requests().iter().skip(shown) {
            let (number, bytes) = (request.number, request.body.len());
            println!("{number} {} {} ({bytes} bytes)", request.method, request.target);
            shown += 1;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

//! Any stream of a model's server, on the wire that its first byte chooses: no panic, and every limit holds.

#![no_main]

use convoke_model::wire::read_stream;
use convoke_thread::config::Wire;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1000;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else { return };
    let wire = if first % 2 == 0 { Wire::Responses } else { Wire::Chat };
    let answer = read_stream(wire, stream, LIMIT);
    assert!(answer.items.iter().filter(|item| item.is_tool_call()).count() <= 256);
    let bytes: u64 = answer.items.iter().map(|item| item.text_bytes()).sum();
    assert!(bytes <= 3 * LIMIT as u64 + 2 * 256, "{bytes} bytes were kept");
});

use convoke_model::wire::read_stream;
use convoke_thread::config::Wire;
use convoke_thread::item::ResponseItem;

const LIMIT: usize = 1000;

/// Reads any response stream on the wire that the first byte selects: the limits of a response hold.
pub fn wires(bytes: &[u8]) -> bool {
    let Some((first, stream)) = bytes.split_first() else { return false };
    let wire = if first % 2 == 0 { Wire::Responses } else { Wire::Chat };
    let answer = read_stream(wire, stream, LIMIT);
    assert!(answer.items.iter().filter(|item| item.is_tool_call()).count() <= 256);
    let bytes: u64 = answer.items.iter().map(ResponseItem::text_bytes).sum();
    assert!(bytes <= 3 * LIMIT as u64 + 2 * 256, "{bytes} bytes were kept");
    bytes > 0
}

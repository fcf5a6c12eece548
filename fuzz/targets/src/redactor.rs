use convoke_redact::Redactor;

const VALUES: [&str; 3] = ["correct-horse-battery", "quo\"ted\\secret", "pass"];

/// Redacts any text: no known value is left, and a text in pieces gives the same result as the whole
/// text.
pub fn redactor(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let redactor = VALUES.iter().fold(Redactor::default(), |known, value| known.and_key(value));
    let whole = redactor.redact(text);
    for value in &VALUES[..2] {
        assert!(!whole.contains(value), "a known value is left");
    }
    for size in [1, 7, 61] {
        let mut stream = redactor.stream();
        let mut shown = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(rest.ceil_char_boundary(size));
            shown += &stream.push(piece);
            rest = left;
        }
        shown += &stream.finish();
        assert_eq!(shown, whole, "pieces of {size} bytes");
    }
    whole != text
}

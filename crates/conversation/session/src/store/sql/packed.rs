//! Compression of contents.

use convoke_protocol::content::ContentHash;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::store::StoreError;

/// Fast rather than small, because a prompt is compressed before its turn starts.
const LEVEL: u8 = 1;

pub(super) fn pack(text: &str) -> Vec<u8> {
    pack_bytes(text.as_bytes())
}

/// Compresses a piece of text, which may begin or end within a character.
pub(super) fn pack_bytes(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, LEVEL)
}

/// Decompresses a text of this size. The error is the reason why it cannot be.
pub(super) fn unpack_text(bytes: u64, packed: &[u8]) -> Result<String, &'static str> {
    let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
    let unpacked = decompress_to_vec_with_limit(packed, limit)
        .map_err(|_| "cannot be unpacked to its size")?;
    String::from_utf8(unpacked).map_err(|_| "is not UTF-8")
}

/// Decompresses a content and checks its hash.
pub(super) fn unpack(hash: ContentHash, bytes: u64, packed: &[u8]) -> Result<String, StoreError> {
    let damaged = |why: &str| StoreError::Damaged(format!("content {hash} {why}"));
    let text = unpack_text(bytes, packed).map_err(damaged)?;
    if ContentHash::new(&text) != hash {
        return Err(damaged("has another hash"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_comes_back_whole_or_not_at_all() {
        let text = "prompt ".repeat(1000);
        let hash = ContentHash::new(&text);
        let packed = pack(&text);
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpack(hash, text.len() as u64, &packed).unwrap(), text);
        assert!(unpack(hash, 10, &packed).is_err());
        assert!(unpack(ContentHash::new("other"), text.len() as u64, &packed).is_err());
        assert!(unpack(hash, text.len() as u64, &packed[..20]).is_err());
    }
}

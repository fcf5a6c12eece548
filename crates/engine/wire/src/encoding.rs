//! Compressed bodies of requests.

use std::io::{self, Read};

use brotli_decompressor::Decompressor;
use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use ruzstd::decoding::StreamingDecoder;

/// A body that cannot be decoded.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// The encoding is unknown.
    #[error("unsupported content-encoding `{0}`; use gzip, deflate, br or zstd")]
    Unknown(String),
    /// The body does not have the encoding that it names.
    #[error("the body does not match its content-encoding: {0}")]
    Broken(String),
    /// The decoded body is over the limit.
    #[error("the decoded body is larger than {0} bytes")]
    TooLarge(usize),
}

/// Returns a body without the encodings that its headers name, decoded up to `limit` bytes.
pub fn unpacked(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes, EncodingError> {
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    let names = encodings.flat_map(|value| value.to_str().unwrap_or("?").split(','));
    let names: Vec<String> = names.map(|name| name.trim().to_ascii_lowercase()).collect();
    // The last encoding was applied last.
    names.iter().rev().try_fold(body, |body, name| unpack(name, body, limit))
}

fn unpack(name: &str, body: Bytes, limit: usize) -> Result<Bytes, EncodingError> {
    let packed = body.as_ref();
    match name {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(packed), limit),
        "deflate" => read(ZlibDecoder::new(packed), limit),
        "br" => read(Decompressor::new(packed, 4096), limit),
        "zstd" => {
            let decoder = StreamingDecoder::new(packed);
            read(decoder.map_err(|error| EncodingError::Broken(error.to_string()))?, limit)
        }
        other => Err(EncodingError::Unknown(other.to_owned())),
    }
}

fn read(unpacking: impl Read, limit: usize) -> Result<Bytes, EncodingError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let broken = |error: io::Error| EncodingError::Broken(error.to_string());
    #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
    unpacking.take(most).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() > limit {
        return Err(EncodingError::TooLarge(limit));
    }
    Ok(bytes.into())
}

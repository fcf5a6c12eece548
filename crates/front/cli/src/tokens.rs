//! Exact token counts, on request only: loading the vocabulary takes longer than everything else.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use convoke_core::AssemblerOutput;
use tiktoken::CoreBpe;

/// The token encoding.
pub const ENCODING: &str = "o200k_base";

/// Parsed once: it takes longer than thousands of texts.
static VOCABULARY: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::o200k_base);

/// Token counts of whole texts: a token may span two ledger entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// The tokens of the prompt.
    pub prompt: usize,
    /// The tokens of the system text.
    pub system: usize,
}

/// Counts the tokens of a prompt. Names of special tokens are counted as plain text.
pub fn count(prompt: &AssemblerOutput<'_>) -> TokenCount {
    let encoding = &VOCABULARY;
    TokenCount {
        prompt: encoding.count(&prompt.prompt),
        system: prompt.system_flag.as_deref().map_or(0, |text| encoding.count(text)),
    }
}

/// Counts the tokens of texts, each text once.
#[derive(Debug, Default)]
pub struct TextTokens {
    counted: RwLock<HashMap<String, u64>>,
}

impl TextTokens {
    /// Returns the number of tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        let known = self.counted.read().unwrap_or_else(PoisonError::into_inner).get(text).copied();
        known.unwrap_or_else(|| {
            let tokens = VOCABULARY.count(text) as u64;
            let mut counted = self.counted.write().unwrap_or_else(PoisonError::into_inner);
            counted.insert(text.to_owned(), tokens);
            tokens
        })
    }
}

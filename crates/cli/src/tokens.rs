//! Exact token counts, for those who ask: loading the vocabulary takes longer than everything else.

use convoke_core::AssemblerOutput;

/// The encoding that is counted in.
pub const ENCODING: &str = "o200k_base";

/// The tokens of each text. Only whole texts can be counted exactly: a token may span two entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// Of the prompt.
    pub prompt: usize,
    /// Of the system text beside it.
    pub system: usize,
}

/// Counts the tokens of a prompt. Names of special tokens in it are counted as the text that they are.
pub fn count(prompt: &AssemblerOutput<'_>) -> TokenCount {
    let encoding = tiktoken::encoding::o200k_base();
    TokenCount {
        prompt: encoding.count(&prompt.prompt),
        system: prompt.system_flag.as_deref().map_or(0, |text| encoding.count(text)),
    }
}

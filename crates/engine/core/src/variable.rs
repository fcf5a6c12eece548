//! Checks names of environment variables in settings.

/// The maximum length of a name. A key given by mistake is often longer.
const MAX_LENGTH: usize = 64;

/// Returns whether a text can be the name of a variable. A setting that should hold a name and does not may
/// hold a secret by mistake, so its value must not be printed.
///
/// ```
/// use convoke_core::variable::is_variable_name;
/// assert!(is_variable_name("MODEL_KEY_2") && is_variable_name("_key"));
/// assert!(!is_variable_name("sk-0123") && !is_variable_name("2nd") && !is_variable_name(""));
/// ```
pub fn is_variable_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= MAX_LENGTH
        && name.bytes().all(fits)
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Returns whether a name looks like a key: long, with digits and lower-case letters.
///
/// ```
/// use convoke_core::variable::looks_like_a_key;
/// assert!(looks_like_a_key("hf_aB3dE5fG7hJ9kLmNoPqR"));
/// assert!(!looks_like_a_key("OPENAI_API_KEY_NUMBER_2") && !looks_like_a_key("my_key_2"));
/// ```
pub fn looks_like_a_key(name: &str) -> bool {
    name.len() >= 20
        && name.bytes().any(|byte| byte.is_ascii_digit())
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
}

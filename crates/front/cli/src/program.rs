//! The name of this program, for commands that a user can copy.

use convoke_core::name::shell_word;

use crate::conversation::store::StoreSettings;

/// Returns the name or path by which this program was started.
pub fn name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') { called } else { "convoke".to_owned() }
}

/// Returns the option that names the store of sessions, with a space before it, if the user passed one: a copied
/// command must find the same session. A store from the environment or the configuration is found without it.
pub fn store_option() -> String {
    let named = StoreSettings::of_process().and_then(|settings| settings.named());
    named.map_or_else(String::new, |url| format!(" --store {}", shell_word(url)))
}

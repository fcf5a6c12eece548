//! Diagnostics: every cut, drop, skip and fallback is reported under a stable code.
//!
//! Each crate has one table of the codes that it gives (`diagnostics.rs`), made with
//! [`diagnostic_codes!`](crate::diagnostic_codes). Help, documentation, `--deny` and the JSON form are
//! all read from these tables.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

/// The severity of a diagnostic, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work until it is corrected.
    Error,
    /// Something was cut, dropped or left out.
    Loss,
    /// Something worth knowing happened; nothing was lost.
    Note,
}

impl Severity {
    /// Returns the name that the JSON form and the documentation use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Loss => "loss",
            Self::Note => "note",
        }
    }
}

/// A stable diagnostic code, for example `context.dropped`, with its row of the table.
#[derive(Clone)]
pub struct Code(Origin);

/// Where a code comes from.
#[derive(Clone)]
enum Origin {
    /// The table of a crate.
    Table(&'static Definition),
    /// A stored diagnostic, perhaps of another version.
    Stored { name: Box<str>, severity: Severity },
}

/// A row of a table of codes.
#[derive(Debug)]
#[doc(hidden)]
pub struct Definition {
    pub name: &'static str,
    pub severity: Severity,
    pub meaning: &'static str,
    pub fix: &'static str,
}

impl Code {
    /// Creates a code from its row. Tables call this through
    /// [`diagnostic_codes!`](crate::diagnostic_codes).
    #[doc(hidden)]
    pub const fn new(definition: &'static Definition) -> Self {
        Self(Origin::Table(definition))
    }

    /// Returns the name that users see and type.
    pub fn name(&self) -> &str {
        match &self.0 {
            Origin::Table(definition) => definition.name,
            Origin::Stored { name, .. } => name,
        }
    }

    /// Returns the severity of the code.
    pub const fn severity(&self) -> Severity {
        match &self.0 {
            Origin::Table(definition) => definition.severity,
            Origin::Stored { severity, .. } => *severity,
        }
    }

    /// Returns the meaning of the code, as one sentence; empty for a stored one.
    pub const fn meaning(&self) -> &'static str {
        match &self.0 {
            Origin::Table(definition) => definition.meaning,
            Origin::Stored { .. } => "",
        }
    }

    /// Returns the fix, as one sentence; empty for a stored one.
    pub const fn fix(&self) -> &'static str {
        match &self.0 {
            Origin::Table(definition) => definition.fix,
            Origin::Stored { .. } => "",
        }
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Code {}

impl Ord for Code {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Code {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Code {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.name())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Defines a crate's table of diagnostic codes: a constant for each, and `ALL`.
///
/// ```
/// mod diagnostics {
///     convoke_core::diagnostic_codes! {
///         FILE_BLANK = "file.blank", Note,
///             "The file has no text.",
///             "Write something into it, or remove it.";
///     }
/// }
/// assert_eq!(diagnostics::ALL, [diagnostics::FILE_BLANK]);
/// assert_eq!(diagnostics::FILE_BLANK.name(), "file.blank");
/// ```
#[macro_export]
macro_rules! diagnostic_codes {
    ($($constant:ident = $name:literal, $severity:ident, $meaning:literal, $fix:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning)]
            pub const $constant: $crate::diagnostic::Code =
                $crate::diagnostic::Code::new(&$crate::diagnostic::Definition {
                    name: $name,
                    severity: $crate::diagnostic::Severity::$severity,
                    meaning: $meaning,
                    fix: $fix,
                });
        )+

        /// Every code of this table, in the order in which they are documented.
        pub const ALL: &[$crate::diagnostic::Code] = &[$($constant,)+];
    };
}

/// A finding, with its location and extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    /// A sentence with the details of this case.
    pub message: String,
    /// The section of the text that the finding concerns, if any.
    pub section: Option<Cow<'static, str>>,
    /// The number of things affected.
    pub count: Option<u64>,
    /// The number of bytes affected.
    pub bytes: Option<u64>,
    /// The file that the finding concerns.
    pub path: Option<String>,
    /// The line that the finding concerns, 1-based.
    pub line: Option<u64>,
}

impl Diagnostic {
    /// Creates a diagnostic with a message alone.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            section: None,
            count: None,
            bytes: None,
            path: None,
            line: None,
        }
    }

    /// Sets the section.
    #[must_use]
    pub fn in_section(mut self, section: &'static str) -> Self {
        self.section = Some(Cow::Borrowed(section));
        self
    }

    /// Sets the number of things affected.
    #[must_use]
    pub fn with_count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Sets the number of bytes affected.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets the file.
    #[must_use]
    pub fn at_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets the 1-based line.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("code", &self.code)?;
        object.serialize_entry("severity", &self.code.severity())?;
        object.serialize_entry("message", &self.message)?;
        if let Some(section) = &self.section {
            object.serialize_entry("section", section)?;
        }
        if let Some(count) = self.count {
            object.serialize_entry("count", &count)?;
        }
        if let Some(bytes) = self.bytes {
            object.serialize_entry("bytes", &bytes)?;
        }
        if let Some(path) = &self.path {
            object.serialize_entry("path", path)?;
        }
        if let Some(line) = self.line {
            object.serialize_entry("line", &line)?;
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Diagnostic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The stored form. Early versions stored no severity.
        #[derive(Deserialize)]
        struct Stored {
            code: Box<str>,
            severity: Option<Severity>,
            message: String,
            section: Option<String>,
            count: Option<u64>,
            bytes: Option<u64>,
            path: Option<String>,
            line: Option<u64>,
        }
        let Stored { code: name, severity, message, section, count, bytes, path, line } =
            Stored::deserialize(deserializer)?;
        let severity = severity.unwrap_or(Severity::Note);
        let code = Code(Origin::Stored { name, severity });
        Ok(Self { code, message, section: section.map(Cow::Owned), count, bytes, path, line })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_details_are_left_out_of_the_json() {
        let diagnostic =
            Diagnostic::new(crate::diagnostics::CONTEXT_DROPPED, "2 messages were left out")
                .in_section("CONTEXT")
                .with_count(2);
        assert_eq!(
            serde_json::to_string(&diagnostic).unwrap(),
            r#"{"code":"context.dropped","severity":"loss","message":"2 messages were left out","section":"CONTEXT","count":2}"#
        );
    }
}

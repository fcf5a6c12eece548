//! Parses the bodies of markers.

use super::keyword::Keyword;
use super::{Intent, Route, Scan};
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::whitespace::{is_blank, trim, trim_end};

impl Scan<'_> {
    /// Applies one marker.
    pub(super) fn apply(&mut self, keyword: Keyword, body: &str) {
        let is_empty_list =
            matches!(keyword, Keyword::Next | Keyword::Drop) && names(body).next().is_none();
        if is_empty_list || is_blank(body) {
            self.note_empty(keyword);
            return;
        }
        match keyword {
            Keyword::Next => self.next.extend(names(body).map(route)),
            Keyword::Drop => self.drop.extend(names(body).map(|name| route(name).name)),
            Keyword::From => {
                self.from.get_or_insert_with(|| trim(body).to_owned());
            }
            Keyword::TeamTask => self.task = Some(trim(body).to_owned()),
        }
    }

    /// Reports a marker without a value.
    pub(super) fn note_empty(&mut self, keyword: Keyword) {
        let name = keyword.name();
        let known = self
            .diagnostics
            .iter_mut()
            .find(|diagnostic| diagnostic.section.as_deref() == Some(name));
        if let Some(count) = known.and_then(|diagnostic| diagnostic.count.as_mut()) {
            *count += 1;
            return;
        }
        let message = format!("a [{name}] marker has no value and no effect");
        let diagnostic =
            Diagnostic::new(diagnostics::MARKER_EMPTY, message).in_section(name).with_count(1);
        self.diagnostics.push(diagnostic);
    }
}

/// Splits a list of names; empty names are ignored.
fn names(body: &str) -> impl Iterator<Item = &str> {
    body.split([',', '，']).map(trim).filter(|name| !name.is_empty())
}

/// Reads `name`, `name!P1`, `name !p2` or `name！P3`.
fn route(written: &str) -> Route {
    let plain = Route { name: written.to_owned(), intent: Intent::default() };
    let Some((head, digit)) = written.char_indices().next_back() else {
        return plain;
    };
    let intent = match digit {
        '1' => Intent::P1,
        '2' => Intent::P2,
        '3' => Intent::P3,
        _ => return plain,
    };
    let name = written[..head]
        .strip_suffix(['p', 'P'])
        .and_then(|rest| rest.strip_suffix(['!', '！']))
        .map(trim_end);
    match name {
        Some(name) if !name.is_empty() => Route { name: name.to_owned(), intent },
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_read_from_the_end_of_a_name() {
        let cases = [
            ("bob", "bob", Intent::P2),
            ("bob!P1", "bob", Intent::P1),
            ("bob !p3", "bob", Intent::P3),
            ("李雷！P3", "李雷", Intent::P3),
            ("bob!P4", "bob!P4", Intent::P2),
            ("bob!P12", "bob!P12", Intent::P2),
            ("bobP1", "bobP1", Intent::P2),
            ("!P1", "!P1", Intent::P2),
        ];
        for (written, name, intent) in cases {
            assert_eq!(route(written), Route { name: name.to_owned(), intent }, "{written}");
        }
    }

    #[test]
    fn a_list_is_split_at_both_commas() {
        assert_eq!(names(" a , b，c,, ").collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}

//! A page of the documentation for a terminal: paragraphs and tables at its width.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use crate::terminal::Paint;

/// Renders the Markdown of a page. O(text).
pub(super) fn render(text: &str, columns: usize, paint: Paint) -> String {
    let mut page = Page { out: String::with_capacity(text.len()), columns, paint };
    let mut lines = text.lines().peekable();
    let mut paragraph = String::new();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let begins = trimmed.is_empty()
            || line.starts_with(['#', '|'])
            || trimmed.starts_with("```")
            || trimmed.starts_with("<!--")
            || is_item(trimmed)
            || (line.starts_with("    ") && paragraph.is_empty());
        if begins {
            page.paragraph(&std::mem::take(&mut paragraph));
        }
        if trimmed.is_empty() {
            page.blank();
        } else if trimmed.starts_with("<!--") {
            let mut end = line;
            while !end.contains("-->") {
                let Some(next) = lines.next() else { break };
                end = next;
            }
        } else if trimmed.starts_with("```") {
            let fence: String = trimmed.chars().take_while(|c| *c == '`').collect();
            for code in lines.by_ref().take_while(|line| line.trim() != fence) {
                page.line(&format!("    {code}"));
            }
        } else if line.starts_with('#') {
            let title = plain(line.trim_start_matches('#').trim_start());
            let title = page.paint.strong(&title);
            page.line(&title);
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            page.table(&rows);
        } else if line.starts_with("    ") && begins {
            page.line(line);
        } else if !trimmed.starts_with("![") {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(if paragraph.is_empty() { line } else { trimmed });
        }
    }
    page.paragraph(&paragraph);
    page.out
}

/// The columns of a topic in the list of pages.
pub(super) const TOPIC: usize = 12;

/// Returns the lines of a page in the list: its topic and its wrapped title.
pub(super) fn entry(topic: &str, title: &str, columns: usize) -> String {
    let mut page = Page { out: String::new(), columns, paint: Paint::Plain };
    page.wrap(title, &format!("{topic:<TOPIC$}  "), &" ".repeat(TOPIC + 2));
    page.out
}

struct Page {
    out: String,
    columns: usize,
    paint: Paint,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Writes a paragraph, or an item of a list whose further lines are indented.
    fn paragraph(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = plain(text);
        let body = text.trim_start();
        let indent = text.len() - body.len();
        let hanging = if is_item(body) { body.find(' ').map_or(0, |at| at + 1) } else { 0 };
        self.wrap(body, &" ".repeat(indent), &" ".repeat(indent + hanging));
    }

    fn wrap(&mut self, text: &str, first: &str, rest: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in text.split_whitespace() {
            if !is_empty && line.width() + 1 + word.width() > self.columns {
                self.line(&line);
                rest.clone_into(&mut line);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.line(&line);
    }

    /// Writes a table: in columns if it fits, else a paragraph for each row.
    fn table(&mut self, rows: &[Vec<String>]) {
        let is_rule =
            |row: &[String]| row.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')));
        let (head, body) = match rows {
            [head, rule, body @ ..] if is_rule(rule) => (head, body),
            [head, body @ ..] => (head, body),
            [] => return,
        };
        let count = rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![0; count];
        for row in std::iter::once(head).chain(body) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let fits = widths.iter().sum::<usize>() + 2 * count.saturating_sub(1) <= self.columns;
        if fits {
            for (index, row) in std::iter::once(head).chain(body).enumerate() {
                let mut line = String::new();
                for (width, cell) in widths.iter().zip(row) {
                    let gap = " ".repeat(width - cell.width() + 2);
                    let _ = write!(line, "{cell}{gap}");
                }
                let line = line.trim_end();
                if index == 0 && !line.is_empty() {
                    let line = self.paint.strong(line);
                    self.line(&line);
                } else if !line.is_empty() {
                    self.line(line);
                }
            }
            return;
        }
        for row in body {
            let Some((first, others)) = row.split_first() else { continue };
            self.wrap(first, "", "  ");
            for (title, cell) in head.iter().skip(1).zip(others) {
                let title = if title.is_empty() { String::new() } else { format!("{title}: ") };
                self.wrap(&format!("{title}{cell}"), "  ", "    ");
            }
        }
    }
}

/// Returns whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || (number.len() < line.len() && number.starts_with(". "))
}

/// Returns the cells of a row of a table.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_matches('|').replace("\\|", "\u{1}");
    row.split('|').map(|cell| plain(cell.trim()).replace('\u{1}', "|")).collect()
}

/// Returns a text without the marks of links and emphasis; external addresses stay.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        let (before, link) = rest.split_at(at);
        shown.push_str(before);
        let parts = link.find("](").and_then(|middle| {
            let end = link[middle..].find(')')? + middle;
            (!link[1..middle].contains('['))
                .then(|| (&link[1..middle], &link[middle + 2..end], end))
        });
        let Some((name, address, end)) = parts else {
            shown.push('[');
            rest = &link[1..];
            continue;
        };
        // The link may be the name of a page's file.
        match name.strip_suffix(".md") {
            Some(topic) => shown.extend(["`convoke docs ", topic, "`"]),
            None => shown.push_str(name),
        }
        if address.starts_with("http") && address != name {
            shown.extend([" (", address, ")"]);
        }
        rest = &link[end + 1..];
    }
    shown.push_str(rest);
    shown.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A *page*\n\nSome words that are\nbroken, with a [link](run.md#x), [run.md](run.md) and `a [b]`.\n\n\
        <!-- setup\nmkdir x\n-->\n```console\n$ convoke run\n```\n\n    code stays   as it is\n\n\
        - one item that is longer than the screen\n  and goes on\n- two\n\n\
        | name | meaning |\n|---|---|\n| `a` | the first letter of the alphabet |\n| `b` | the second |\n";

    #[test]
    fn a_page_has_the_width_of_the_screen() {
        insta::assert_snapshot!(render(TEXT, 32, Paint::Plain), @r"
        A *page*

        Some words that are broken, with
        a link, `convoke docs run` and
        `a [b]`.

            $ convoke run

            code stays   as it is

        - one item that is longer than
          the screen and goes on
        - two

        `a`
          meaning: the first letter of
            the alphabet
        `b`
          meaning: the second
        ");
        let listed = "changes       `convoke changes` and\n              `convoke undo`\n";
        assert_eq!(entry("changes", "`convoke changes` and `convoke undo`", 40), listed);
        let wide = render(TEXT, 60, Paint::Plain);
        assert!(wide.contains("name  meaning\n`a`   the first letter"), "{wide}");
    }
}

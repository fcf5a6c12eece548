//! Attributes of a working tree that convert contents, so that a file is not what its repository has.

use std::io;
use std::path::Path;

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

use crate::git::Host;
use crate::ignore_rules::WorkTree;
use crate::manifest::Manifest;
use crate::pattern_file::read_below;

const ATTRIBUTES_FILE: &str = ".gitattributes";

/// The files of a working tree that a filter or an encoding may convert.
///
/// Conversions of line ends and of `ident` are not among them: they change the size of a file, which is compared.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    /// The ends of the names of converted files.
    suffixes: Vec<Vec<u8>>,
    /// Whether any file may be converted.
    any: bool,
}

impl Conversions {
    /// Reads the attributes of a working tree, its repository, its user and its machine.
    pub(crate) fn of(work_tree: &WorkTree, state: &Manifest, root: &Path, host: &Host) -> Self {
        let of_machine = Disk.read(Path::new("/etc/gitattributes"), FileKind::Gitignore);
        let mut texts = vec![of_machine, work_tree.user_attributes(host)];
        texts.extend(work_tree.info_attributes());
        let above = root.ancestors().skip(1).take_while(|above| above.starts_with(work_tree.top()));
        texts.extend(above.map(|above| read_below(above, Path::new(ATTRIBUTES_FILE))));
        let name = ATTRIBUTES_FILE.as_bytes();
        let has_attributes = state
            .directories
            .iter()
            .filter(|(_, it)| it.files.contains_key(name) || it.left_out.contains_key(name));
        let below = has_attributes.map(|(path, _)| path.join(name).under(Path::new("")));
        texts.extend(below.map(|below| read_below(root, &below)));
        let mut conversions = Self::default();
        for text in texts {
            match text {
                Ok(text) => conversions.add(&text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => conversions.any = true,
            }
        }
        conversions
    }

    /// Adds the lines of a file of attributes.
    fn add(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let Some(pattern) = words.next().filter(|pattern| !pattern.starts_with(b"#")) else {
                continue;
            };
            let converts = |word: &[u8]| {
                let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
                matches!(name, b"filter" | b"working-tree-encoding")
            };
            if !words.any(converts) {
                continue;
            }
            match pattern.strip_prefix(b"*") {
                Some(end)
                    if end.starts_with(b".") && !end.iter().any(|it| b"*?[]\\/".contains(it)) =>
                {
                    self.suffixes.push(end.to_vec());
                }
                _ => self.any = true,
            }
        }
    }

    /// Returns whether a file may be converted, by its path in the working tree.
    pub(crate) fn apply_to(&self, path: &[u8]) -> bool {
        self.any || self.suffixes.iter().any(|suffix| path.ends_with(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_encodings_convert_the_files_that_they_name() {
        let of = |text: &str| {
            let mut conversions = Conversions::default();
            conversions.add(text.as_bytes());
            ["a.bin", "b.txt"].map(|path| conversions.apply_to(path.as_bytes()))
        };
        assert_eq!(
            of("* text=auto eol=lf ident\n# *.bin filter=lfs\n*.bin -filter !filter\n"),
            [false; 2]
        );
        assert_eq!(of("*.bin filter=lfs diff=lfs merge=lfs -text\r\n"), [true, false]);
        assert_eq!(of("*.txt working-tree-encoding=UTF-16\n"), [false, true]);
        for any in
            ["[attr]lfs filter=lfs", "dir/** filter=lfs", "*.[b]in filter=x", "\"*.bin\" filter"]
        {
            assert_eq!(of(any), [true; 2], "{any}");
        }
    }
}

//! Every target holds on its seeds.

#![expect(clippy::unwrap_used, reason = "the functions of a test")]

use std::fs;
use std::path::{Path, PathBuf};

use convoke_fuzz_targets::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the names of what a folder holds, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Beside each seed as it is, the target gets it cut anywhere, repeated, and with a byte changed.
#[test]
fn every_target_holds_on_its_seeds_and_on_what_is_near_them() {
    for (name, target) in TARGETS {
        let folder = fuzz().join("seeds").join(name);
        let mut accepted = 0;
        for seed in names(&folder) {
            let bytes = fs::read(folder.join(&seed)).unwrap();
            println!("{name}/{seed}");
            if target(&bytes) {
                println!("accepted");
                accepted += 1;
            }
            target(&bytes.repeat(2));
            let step = bytes.len() / 64 + 1;
            for at in (0..bytes.len()).step_by(step) {
                target(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                target(&changed);
            }
        }
        assert!(accepted > 0, "{name} accepts none of its seeds");
    }
}

#[test]
fn libfuzzer_has_every_target_and_every_target_has_seeds() {
    let targets = TARGETS.map(|(name, _)| name);
    assert_eq!(names(&fuzz().join("seeds")), targets);
    let sources = names(&fuzz().join("fuzz_targets"));
    assert_eq!(sources, targets.map(|name| format!("{name}.rs")));
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in targets {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} has no program");
    }
}

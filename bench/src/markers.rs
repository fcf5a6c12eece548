//! Cleaning texts of markers, under both policies.

use convoke_core::marker::{TextPolicy, strip_all_markers};

use crate::measure::{measure, measure_copy};
use crate::table::{self, throughput};
use crate::texts::{CJK, CODE, PROSE, TYPOGRAPHIC, lines_of};

const MIB: usize = 1024 * 1024;

pub fn run() {
    table::begin(
        "Markers: cleaning 1 MiB",
        &["text", "preserve", "allocations", "compat", "allocations", "copy"],
    );
    let marked = |every: usize| {
        let prose = lines_of(PROSE, every);
        format!("{prose} [NEXT: sarah!P1, max] and on.\n").repeat(MIB / every)
    };
    let indented: Vec<String> = PROSE.iter().map(|line| format!("    {line}\n")).collect();
    let indented: Vec<&str> = indented.iter().map(String::as_str).collect();
    let texts = [
        ("prose without markers", lines_of(PROSE, MIB)),
        ("indented prose, blank lines", lines_of(&indented, MIB)),
        ("typographic prose", lines_of(TYPOGRAPHIC, MIB)),
        ("Chinese", lines_of(CJK, MIB)),
        ("code", lines_of(CODE, MIB)),
        ("a marker every 4 KiB", marked(4096)),
        ("a marker every 256 bytes", marked(256)),
        ("nothing but markers", "[NEXT: max]".repeat(MIB / 11)),
        ("`[NEXT:` over and over", "[NEXT:".repeat(MIB / 6)),
        ("`[NEXT: a` on lines", "[NEXT: a\n".repeat(MIB / 9)),
        ("brackets", "a[0] = b[1];\n".repeat(MIB / 13)),
    ];
    for (name, text) in &texts {
        let clean = |policy| measure(|| strip_all_markers(text, policy));
        let (preserve, compat) = (clean(TextPolicy::Preserve), clean(TextPolicy::Compat));
        table::row(&[
            (*name).to_owned(),
            throughput(text.len(), preserve.nanos),
            preserve.allocations.to_string(),
            throughput(text.len(), compat.nanos),
            compat.allocations.to_string(),
            throughput(text.len(), measure_copy(text).nanos),
        ]);
    }
}

//! Tables in Markdown.

/// Prints the title and the head of a table.
pub fn begin(title: &str, columns: &[&str]) {
    println!("\n### {title}\n");
    row(columns);
    let rules: Vec<&str> = columns.iter().map(|_| "--:").collect();
    row(&rules);
}

/// Prints one row.
pub fn row<S: AsRef<str>>(cells: &[S]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    println!("| {} |", cells.join(" | "));
}

/// Writes a time in a unit that suits it.
pub fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Writes a throughput.
pub fn throughput(bytes: usize, nanos: f64) -> String {
    let gigabytes = float(bytes) / nanos;
    if gigabytes < 0.1 {
        format!("{:.0} MB/s", gigabytes * 1e3)
    } else {
        format!("{gigabytes:.2} GB/s")
    }
}

/// Writes a count of millions.
pub fn millions(count: f64) -> String {
    format!("{:.1} million", count / 1e6)
}

/// Writes how often one time goes into another.
pub fn ratio(nanos: f64, of: f64) -> String {
    format!("{:.2}×", nanos / of)
}

/// Writes a number with its thousands apart.
pub fn number(number: usize) -> String {
    convoke_core::figures::thousands(number as u64)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn float(number: usize) -> f64 {
    number as f64
}

//! Figures as people read them.

/// Returns a number with a comma between thousands.
///
/// ```
/// assert_eq!(convoke_core::figures::thousands(1_234_567), "1,234,567");
/// ```
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns an amount in US dollars: cents, or as many digits as a smaller amount needs.
///
/// ```
/// use convoke_core::figures::dollars;
/// assert_eq!([dollars(0.0), dollars(0.0123), dollars(12.345)], ["$0.00", "$0.0123", "$12.35"]);
/// ```
pub fn dollars(amount: f64) -> String {
    match amount {
        ..=0.0 => "$0.00".to_owned(),
        ..0.0001 => "<$0.0001".to_owned(),
        ..0.1 => format!("${amount:.4}"),
        _ => format!("${amount:.2}"),
    }
}

/// Returns a number of bytes as people say it: `1,042 B`, `184 KB`, `2.1 MB`.
pub fn size(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    match bytes {
        0..10_000 => format!("{} B", thousands(bytes)),
        10_000..1_000_000 => format!("{} KB", (bytes + 500) / 1000),
        _ => format!("{}.{} MB", thousands(tenths / 10), tenths % 10),
    }
}

/// Returns a share in percent: whole numbers from ten on, and one digit after the point below. A little is
/// not nothing, and almost all is not all.
pub fn share(part: u64, whole: u64) -> String {
    let rounded = |scale: u128| {
        let wide = u128::from(part) * scale + u128::from(whole / 2);
        wide.checked_div(whole.into()).unwrap_or(0)
    };
    match (rounded(100), rounded(1000)) {
        (100, _) if part < whole => ">99 %".to_owned(),
        (percent @ 10.., _) => format!("{percent} %"),
        (_, 0) if part > 0 => "<0.1 %".to_owned(),
        (_, tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0, 999, 1000, 76938, 1_234_567].map(thousands),
            ["0", "999", "1,000", "76,938", "1,234,567"]
        );
    }

    #[test]
    fn sizes_and_shares_are_short() {
        assert_eq!(
            [1_042, 9_999, 184_312, 999_499, 2_149_999].map(size),
            ["1,042 B", "9,999 B", "184 KB", "999 KB", "2.1 MB"]
        );
        assert_eq!(
            [(61, 100), (6, 1000), (95, 1000), (1, 1), (9_999, 10_000), (1, 9_999), (0, 0)]
                .map(|(part, whole)| share(part, whole)),
            ["61 %", "0.6 %", "10 %", "100 %", ">99 %", "<0.1 %", "0.0 %"]
        );
    }
}

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

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0, 999, 1000, 76938, 1_234_567].map(thousands),
            ["0", "999", "1,000", "76,938", "1,234,567"]
        );
    }
}

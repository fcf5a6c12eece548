//! Numbers in the output of commands.

pub use convoke_core::figures::{count, dollars, percent, seconds, thousands as number};

/// Formats a difference with its sign: `+1,204`.
pub fn signed(before: u64, after: u64) -> String {
    if after >= before {
        format!("+{}", number(after - before))
    } else {
        format!("-{}", number(before - after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_sign() {
        assert_eq!([signed(5, 2000), signed(2000, 5), signed(1, 1)], ["+1,995", "-1,995", "+0"]);
    }
}

//! Formatting of times.

use std::time::Duration;

/// Formats a duration: `1:05`, `2:00:00`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_those_of_a_clock() {
        let times = [0, 65, 7200].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(times, ["0:00", "1:05", "2:00:00"]);
    }
}

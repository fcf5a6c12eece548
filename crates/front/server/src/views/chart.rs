//! A treemap: rectangles whose areas are sizes.

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// Returns a name cut to a number of letters; `None` if too little would remain.
pub(crate) fn shortened(name: &str, room: usize) -> Option<String> {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.chars().count() <= room {
        return Some(name);
    }
    (room >= 5).then(|| name.chars().take(room - 1).chain(['…']).collect())
}

/// Returns a length as SVG writes it.
pub(crate) fn rounded(value: f64) -> String {
    format!("{value:.3}")
}

/// Divides a rectangle by sizes, the largest first, into parts that are as square as possible.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
pub(crate) fn squarified(sizes: &[u64], area: Area) -> Vec<Area> {
    let whole: u64 = sizes.iter().sum();
    if whole == 0 {
        return vec![Area { width: 0.0, height: 0.0, ..area }; sizes.len()];
    }
    let scale = area.width * area.height / whole as f64;
    let sizes: Vec<f64> = sizes.iter().map(|size| *size as f64 * scale).collect();
    let mut areas = Vec::with_capacity(sizes.len());
    let mut rest = area;
    let mut from = 0;
    while from < sizes.len() {
        let side = rest.width.min(rest.height);
        let mut to = from + 1;
        while to < sizes.len() && worst(&sizes[from..=to], side) <= worst(&sizes[from..to], side) {
            to += 1;
        }
        let sum: f64 = sizes[from..to].iter().sum();
        let is_wide = rest.width >= rest.height;
        let depth = if side > 0.0 { sum / side } else { 0.0 };
        let mut at = 0.0;
        for size in &sizes[from..to] {
            let length = if depth > 0.0 { size / depth } else { 0.0 };
            areas.push(if is_wide {
                Area { x: rest.x, y: rest.y + at, width: depth, height: length }
            } else {
                Area { x: rest.x + at, y: rest.y, width: length, height: depth }
            });
            at += length;
        }
        rest = if is_wide {
            Area { x: rest.x + depth, width: (rest.width - depth).max(0.0), ..rest }
        } else {
            Area { y: rest.y + depth, height: (rest.height - depth).max(0.0), ..rest }
        };
        from = to;
    }
    areas
}

/// Returns the worst aspect ratio of a row's rectangles.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let (largest, smallest) = row
        .iter()
        .fold((0.0_f64, f64::MAX), |(most, least), size| (most.max(*size), least.min(*size)));
    let (side, sum) = (side * side, sum * sum);
    (side * largest / sum).max(sum / (side * smallest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treemap_fills_its_area() {
        let area = Area { x: 0.0, y: 0.0, width: 100.0, height: 60.0 };
        let areas = squarified(&[600, 300, 90, 9, 1], area);
        let filled: f64 = areas.iter().map(|it| it.width * it.height).sum();
        assert!((filled - 6000.0).abs() < 0.001, "{filled}");
        assert!(areas.iter().all(|it| it.x + it.width < 100.001 && it.y + it.height < 60.001));
        let first = areas[0].width * areas[0].height;
        assert!((first - 3600.0).abs() < 0.001, "{first}");
        assert_eq!(squarified(&[0, 0], area).len(), 2);
    }

    #[test]
    fn a_name_is_shortened_or_left_out() {
        assert_eq!(shortened("settings", 8).as_deref(), Some("settings"));
        assert_eq!(shortened("settings", 6).as_deref(), Some("setti…"));
        assert_eq!(shortened("settings", 4), None);
    }
}

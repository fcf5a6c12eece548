//! Small lies about what arrived, each of which the comparison must notice.

use crate::scenario::Expected;

/// Returns changed expectations with what was done to each.
pub fn mutations(expected: &Expected, order_is_free: bool) -> Vec<(&'static str, Expected)> {
    let mut mutations = Vec::new();
    let Some(first) = expected.loaded.first() else {
        return mutations;
    };
    let mut change = |what, change: &dyn Fn(&mut Expected)| {
        let mut mutated = expected.clone();
        change(&mut mutated);
        mutations.push((what, mutated));
    };
    change("a byte more arrived", &|it| it.loaded[0].bytes_seen += 1);
    change("a file grew", &|it| it.loaded[0].bytes += 1);
    change("a whole file was cut", &|it| it.loaded[0].is_whole ^= true);
    change("a file came under another name", &|it| it.loaded[0].path.push('x'));
    change("the last file was left out", &|it| {
        it.loaded.pop();
    });
    change("a file arrived once more", &|it| it.loaded.push(it.loaded[0].clone()));
    if first.arrived.is_some() {
        change("a character of the text changed", &|it| {
            if let Some(arrived) = &mut it.loaded[0].arrived {
                arrived.push('x');
            }
        });
    }
    let differ = |pair: &[crate::scenario::ExpectedFile]| pair[0].path != pair[1].path;
    if !order_is_free && let Some(at) = expected.loaded.windows(2).position(differ) {
        change("two files changed places", &|it| it.loaded.swap(at, at + 1));
    }
    mutations
}

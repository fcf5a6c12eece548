//! Budget planning: decides from sizes how much of each item is kept, before any text is written.

use super::item::Kind;

/// The size of an item: of its heading and what is around it, and of its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) frame: usize,
    pub(super) text: usize,
}

/// The items of one kind, and the size of what is written before the first of them.
#[derive(Debug)]
pub(super) struct KindSizes {
    pub(super) kind: Kind,
    pub(super) header: usize,
    /// In the order in which they were said and done.
    pub(super) items: Vec<Size>,
}

/// The least of a text that is worth to be kept.
const MIN_TEXT: usize = 240;

/// Returns the bytes that each item may have, by kind; `None` for one that is left out.
///
/// Each kind has a share of the room. What a kind does not need goes to the others, the most important first.
pub(super) fn plan(kinds: &[KindSizes], room: usize) -> Vec<Vec<Option<usize>>> {
    let needed: Vec<usize> = kinds.iter().map(|kind| kind.needed(room)).collect();
    let own = |(kind, needed): (&KindSizes, &usize)| (*needed).min(room / 100 * kind.kind.share());
    let mut allotted: Vec<usize> = kinds.iter().zip(&needed).map(own).collect();
    let mut left = room.saturating_sub(allotted.iter().sum());
    for (allotted, needed) in allotted.iter_mut().zip(&needed) {
        let more = (needed - *allotted).min(left);
        *allotted += more;
        left -= more;
    }
    // What does not fill a share is not lost: the next kind has it.
    let mut unused = left;
    let fit = |(kind, allotted): (&KindSizes, usize)| {
        let available = allotted + unused;
        let kept = kind.fit(available, room);
        unused = available - kind.used(&kept);
        kept
    };
    kinds.iter().zip(allotted).map(fit).collect()
}

impl KindSizes {
    /// Returns the bytes of one item's text if there is room enough.
    fn wanted(&self, item: Size, room: usize) -> usize {
        self.kind.max_item(room).map_or(item.text, |max| item.text.min(max))
    }

    fn needed(&self, room: usize) -> usize {
        if self.items.is_empty() {
            return 0;
        }
        let items = self.items.iter().map(|item| item.frame + self.wanted(*item, room));
        self.header + items.sum::<usize>()
    }

    fn used(&self, kept: &[Option<usize>]) -> usize {
        let kept = self.items.iter().zip(kept);
        let items: usize = kept.filter_map(|(item, text)| Some(item.frame + (*text)?)).sum();
        if items == 0 { 0 } else { self.header + items }
    }

    /// Keeps the newest items, and of the person's messages the first too, which says what everything is about.
    fn fit(&self, allotted: usize, room: usize) -> Vec<Option<usize>> {
        let mut kept = vec![None; self.items.len()];
        let Some(mut left) = allotted.checked_sub(self.header) else { return kept };
        let newest_first = (0..self.items.len()).rev();
        let order: Vec<usize> = match self.kind {
            Kind::Person if self.items.len() > 2 => {
                let last = self.items.len() - 1;
                [last, 0].into_iter().chain((1..last).rev()).collect()
            }
            _ => newest_first.collect(),
        };
        for (position, at) in order.iter().enumerate() {
            let item = self.items[*at];
            let wanted = self.wanted(item, room);
            if item.frame + wanted <= left {
                kept[*at] = Some(wanted);
                left -= item.frame + wanted;
                continue;
            }
            // An item is cut only if it is one of the large ones: many whole items tell more than halves of them.
            let is_last = position + 1 == order.len();
            let part = if is_last { left } else { left / 2 };
            let is_large = item.text > allotted / 4;
            if !is_large || part < item.frame + MIN_TEXT {
                break;
            }
            kept[*at] = Some(part - item.frame);
            left -= part;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(kind: Kind, texts: &[usize]) -> KindSizes {
        let items = texts.iter().map(|text| Size { frame: 10, text: *text }).collect();
        KindSizes { kind, header: 20, items }
    }

    #[test]
    fn what_one_kind_does_not_need_goes_to_the_others() {
        let kinds = [sizes(Kind::Person, &[100]), sizes(Kind::Summary, &[900])];
        assert_eq!(plan(&kinds, 2_000), [vec![Some(100)], vec![Some(900)]]);
    }

    #[test]
    fn of_many_messages_the_first_and_the_newest_stay() {
        let kinds = [sizes(Kind::Person, &[100; 50])];
        let kept = &plan(&kinds, 1_000)[0];
        assert!(kept[0].is_some() && kept[49].is_some() && kept[48].is_some() && kept[1].is_none());
        assert_eq!(kept.iter().flatten().count(), 980 / 110);
    }

    #[test]
    fn a_large_item_is_cut_and_the_room_is_never_exceeded() {
        for room in 0..3_000 {
            let kinds = [
                sizes(Kind::Person, &[5_000, 20, 5_000]),
                sizes(Kind::Exchange, &[700, 800]),
                sizes(Kind::Result, &[]),
            ];
            let kept = plan(&kinds, room);
            let used: usize = kinds.iter().zip(&kept).map(|(kind, kept)| kind.used(kept)).sum();
            assert!(used <= room, "{used} of {room}");
        }
        let kept = &plan(&[sizes(Kind::Person, &[5_000, 20, 5_000])], 2_000)[0];
        assert!(kept.iter().all(Option::is_some), "{kept:?}");
    }
}

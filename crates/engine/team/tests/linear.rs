//! The cost of reading a team file is linear in its size. Steps are counted as allocations: every key that is
//! read or compared takes one.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use convoke_team::Team;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn steps(text: &str, is_right: bool) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(Team::parse(text).is_ok(), is_right);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

fn members(count: usize, rest: &str) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        let _ = write!(text, "[[member]]\nname = \"m{index}\"\nagent = \"claude\"\n{rest}");
        text
    })
}

/// A single test, so that nothing else allocates meanwhile.
#[test]
fn twice_the_members_cost_twice_the_steps() {
    type Make = fn(usize) -> String;
    let files: [(&str, bool, Make); 4] = [
        ("members", true, |count| members(count, "")),
        ("errors", false, |count| members(count, "windw = 1\n")),
        ("members of one name", false, |count| members(count, "").replace(char::is_numeric, "")),
        ("unknown settings", false, |count| {
            (0..count).fold(String::new(), |text, index| format!("{text}k{index} = 1\n"))
        }),
    ];
    for (what, is_right, make) in files {
        let (once, twice) = (steps(&make(2000), is_right), steps(&make(4000), is_right));
        assert!(twice <= once * 5 / 2, "{what}: {once} allocations, and {twice} for twice as many");
    }
}

//! What callgrind looks at: everything from the entry into [`count_only_this`] to its end, and
//! nothing else (`--toggle-collect`).

use std::hint::black_box;

use crate::Outcome;

/// Counted calls of a case; the count of one is their average.
pub(crate) const CALLS: u32 = 64;
/// Calls in front of them: symbols get bound, the allocator gets its first pages.
const WARM_CALLS: u32 = 4;

/// The only function that is counted. Its name is what `cargo xtask budgets` asks callgrind for.
#[inline(never)]
fn count_only_this<I, T>(input: I, work: &mut impl FnMut(I) -> T) -> T {
    black_box(work(black_box(input)))
}

/// Calls `work` with an input that `prepare` makes, outside of the count, from the number of the
/// call; results are dropped outside of it too. `is_right` keeps a broken case from looking fast.
pub(crate) fn calls<I, T>(
    mut prepare: impl FnMut(u32) -> Outcome<I>,
    mut work: impl FnMut(I) -> T,
    mut is_right: impl FnMut(&T) -> bool,
) -> Outcome<()> {
    for call in 0..WARM_CALLS + CALLS {
        let input = prepare(call)?;
        let result = if call < WARM_CALLS {
            work(black_box(input))
        } else {
            count_only_this(input, &mut work)
        };
        if !is_right(&result) {
            return Err(format!("call {call} went wrong").into());
        }
    }
    Ok(())
}

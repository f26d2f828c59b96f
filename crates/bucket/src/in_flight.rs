//! How many requests are in flight: fewer when they are too much for the store or the line, more again when not.
//!
//! On a thin line many large requests at a time all run out of time, and would begin again for ever. So a time limit
//! that was met, or a store that asks to slow down, halves the number, and each request that was quick adds one (as
//! TCP does with bytes).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// As many are always allowed: one that hangs must not keep all others.
const LEAST: usize = 2;
/// Smaller ones are quick on any line, and say little about it: so many say as much as a larger one.
const TELLING_BYTES: u64 = 64 << 10;
const SMALL_ONES: u32 = 16;
/// A request is quick within this part of its time limit.
const QUICK_PART: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct InFlight {
    permits: Semaphore,
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits out there that are not to come back.
    surplus: usize,
    halved: Option<Instant>,
    /// Small requests that were quick since the number changed.
    small: u32,
}

/// A request's place among those in flight.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    of: &'a InFlight,
    permit: Option<SemaphorePermit<'a>>,
    began: Instant,
}

impl InFlight {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = State {
            limit: most,
            surplus: 0,
            halved: None,
            small: 0,
        };
        Self {
            permits: Semaphore::new(most),
            most,
            state: Mutex::new(state),
        }
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> Place<'_> {
        // Never closed; if it were, the request would only go without a permit.
        let permit = self.permits.acquire().await.ok();
        Place {
            of: self,
            permit,
            began: Instant::now(),
        }
    }

    /// How many may be in flight now.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

impl Place<'_> {
    /// The request moved `bytes` within the time limit.
    pub(crate) fn succeeded(self, bytes: u64, time_limit: Duration) {
        if self.began.elapsed() > time_limit / QUICK_PART {
            return;
        }
        let mut state = self.of.state.lock();
        if state.limit < self.of.most {
            state.small += 1;
            if bytes < TELLING_BYTES && state.small < SMALL_ONES {
                return;
            }
            state.small = 0;
            state.limit += 1;
            if state.surplus > 0 {
                state.surplus -= 1;
            } else {
                self.of.permits.add_permits(1);
            }
        }
    }

    /// The request met its time limit, or the store asked to slow down.
    pub(crate) fn was_too_much(self) {
        let mut state = self.of.state.lock();
        // Those that began before the last change say nothing about it: they all end together.
        if state.halved.is_some_and(|at| self.began < at) {
            return;
        }
        state.halved = Some(Instant::now());
        // Of those that there were, which may be fewer than there could have been.
        let taken = state.limit + state.surplus - self.of.permits.available_permits();
        let limit = (state.limit.min(taken) / 2).max(LEAST.min(self.of.most));
        let fewer = state.limit.saturating_sub(limit);
        state.limit = limit;
        state.surplus += fewer - self.of.permits.forget_permits(fewer);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        if state.surplus > 0
            && let Some(permit) = self.permit.take()
        {
            state.surplus -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::unconstrained;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const LARGE: u64 = 8 << 20;

    /// How many places there are, all of them taken.
    async fn places(of: &InFlight) -> usize {
        let mut taken = Vec::new();
        while let Some(place) = futures::FutureExt::now_or_never(unconstrained(of.place())) {
            taken.push(place);
        }
        taken.len()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_time_out_together_halve_the_number_once() {
        let all = InFlight::new(8);
        let mut taken = Vec::new();
        for _ in 0..8 {
            taken.push(all.place().await);
        }
        tokio::time::advance(LIMIT).await;
        taken.into_iter().for_each(Place::was_too_much);
        assert_eq!((all.limit(), places(&all).await), (4, 4));
        tokio::time::advance(LIMIT).await;
        let taken = [all.place().await, all.place().await, all.place().await];
        tokio::time::advance(LIMIT).await;
        taken.into_iter().for_each(Place::was_too_much);
        assert_eq!((all.limit(), places(&all).await), (2, 2));
        tokio::time::advance(LIMIT).await;
        all.place().await.was_too_much();
        assert_eq!((all.limit(), places(&all).await), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_halved_is_what_there_was() {
        let all = InFlight::new(32);
        let mut taken = Vec::new();
        for _ in 0..10 {
            taken.push(all.place().await);
        }
        tokio::time::advance(LIMIT).await;
        taken.into_iter().for_each(Place::was_too_much);
        assert_eq!((all.limit(), places(&all).await), (5, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn quick_ones_bring_it_back_and_slow_ones_do_not() {
        let all = InFlight::new(4);
        all.place().await.was_too_much();
        assert_eq!(places(&all).await, 2);
        let slow = all.place().await;
        all.place().await.succeeded(100, LIMIT);
        tokio::time::advance(LIMIT / 2).await;
        slow.succeeded(LARGE, LIMIT);
        assert_eq!(places(&all).await, 2);
        all.place().await.succeeded(LARGE, LIMIT);
        assert_eq!((all.limit(), places(&all).await), (3, 3));
        for small in 1..=SMALL_ONES * 2 {
            all.place().await.succeeded(100, LIMIT);
            let want = if small < SMALL_ONES { 3 } else { 4 };
            assert_eq!((all.limit(), places(&all).await), (want, want));
        }
    }

    // A place that is given up, as by a reader that left, keeps the count.
    #[tokio::test(start_paused = true)]
    async fn places_in_use_are_counted_while_the_number_changes() {
        let all = InFlight::new(6);
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(all.place().await);
        }
        taken.remove(0).was_too_much();
        assert_eq!(all.limit(), 3);
        assert_eq!(places(&all).await, 0);
        // Two of the five left are surplus, or one, once a quick one has raised the number.
        taken.remove(0).succeeded(LARGE, LIMIT);
        assert_eq!((all.limit(), places(&all).await), (4, 0));
        drop(taken);
        assert_eq!(places(&all).await, 4);
        assert_eq!(InFlight::new(1).place().await.of.limit(), 1);
    }
}

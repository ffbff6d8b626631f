//! Work on several items at a time, as many as there are processors.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread::available_parallelism;

/// Threads that [`each`] works with.
pub fn workers() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` on each item, begun in their order. Results come in any order.
pub fn each<'a, T: Sync, R: Send>(items: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    let waiting = Mutex::new(items.iter());
    let next = || waiting.lock().expect("nobody panics while holding it").next();
    let work = || std::iter::from_fn(next).map(&work).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        let mut done = each(&[3, 1, 2], |item| item * 10);
        done.sort_unstable();
        assert_eq!(done, [10, 20, 30]);
    }
}

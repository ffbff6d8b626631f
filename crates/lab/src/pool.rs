//! Work for all processors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does `work` for every item on as many threads as there are processors; the results are in the order of the
/// items. `done` is told how many are done after each, and which was the last.
///
/// # Panics
/// When a worker does.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn(usize, &T) + Sync,
) -> Vec<R> {
    map_until(&AtomicBool::new(false), items, work, done)
}

/// The same, but begins no more once `stop` is set: the results are those of the first items.
///
/// # Panics
/// When a worker does.
pub fn map_until<T: Sync, R: Send>(
    stop: &AtomicBool,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn(usize, &T) + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let count = AtomicUsize::new(0);
    let take = || {
        let mut results = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { break };
            results.push((place, work(item)));
            done(count.fetch_add(1, Ordering::Relaxed) + 1, item);
        }
        results
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker panicked")).collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn results_are_in_order_and_each_is_told() {
        let items: Vec<usize> = (0..100).collect();
        let told = Mutex::new(Vec::new());
        let squares = map(&items, |item| item * item, |count, _| told.lock().unwrap().push(count));
        assert!(squares.iter().enumerate().all(|(place, square)| *square == place * place));
        let mut told = told.into_inner().unwrap();
        told.sort_unstable();
        assert_eq!(told, (1..=100).collect::<Vec<usize>>());
    }

    #[test]
    fn what_was_begun_is_finished() {
        let items: Vec<usize> = (0..1000).collect();
        let stop = AtomicBool::new(false);
        let results = map_until(
            &stop,
            &items,
            |item| *item,
            |count, _| {
                stop.fetch_or(count == 10, Ordering::Relaxed);
            },
        );
        assert!(results.len() >= 10 && results.len() < items.len(), "{} of them", results.len());
        assert_eq!(results, items[..results.len()]);
    }
}

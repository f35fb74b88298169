//! A thread with a flag that stops it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, park, park_timeout};
use std::time::{Duration, Instant};

/// A thread that works until its stop flag is set. Dropping this value stops the thread and waits for its end.
#[derive(Debug)]
pub struct StoppableThread<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> StoppableThread<T> {
    /// Starts a thread with this name. `work` must return soon after its flag is set.
    ///
    /// # Errors
    /// If the system cannot start the thread.
    pub fn start(name: &str, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(&own))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl<T> StoppableThread<T> {
    /// Sets the flag. [`is_stopped_within`] in the thread returns at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Stops the thread and returns its result; `None` if it panicked.
    pub fn end(mut self) -> Option<T> {
        self.join()
    }

    fn join(&mut self) -> Option<T> {
        self.stop();
        self.thread.take()?.join().ok()
    }
}

impl<T> Drop for StoppableThread<T> {
    fn drop(&mut self) {
        // The result is not used. A panic of the thread was printed when it happened.
        self.join();
    }
}

/// Waits in a [`StoppableThread`] until its flag is set or `wait` is over. Returns whether the flag is set.
pub fn is_stopped_within(stop: &AtomicBool, wait: Duration) -> bool {
    let end = Instant::now().checked_add(wait);
    while !stop.load(Ordering::Relaxed) {
        // Without a representable end, the wait has no limit.
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            Some(left) if left.is_zero() => return false,
            Some(left) => park_timeout(left),
            None => park(),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_dropped_or_ended_has_stopped() {
        let waits = |stop: &AtomicBool| is_stopped_within(stop, Duration::MAX);
        drop(StoppableThread::start("test", waits).unwrap());
        assert_eq!(StoppableThread::start("test", waits).unwrap().end(), Some(true));
    }

    #[test]
    fn a_wait_without_a_stop_has_its_whole_length() {
        let begun = Instant::now();
        assert!(!is_stopped_within(&AtomicBool::new(false), Duration::from_millis(5)));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}

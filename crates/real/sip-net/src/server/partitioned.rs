//! The sockets of a server that runs on several threads.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use netrig_core::Duration;
use netrig_sip::header::Transport;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::server::Server;

use super::connections::Limits;
use super::handover::Handover;
use super::order::{ServeError, SocketsOrder, kernel};
use super::sockets::{CommonParts, Sockets, Watcher};
use super::tally::Tally;
use crate::ListeningPoint;
use crate::tap::MessageTap;
use netrig_host::DescriptorShortage;

/// The sockets of all threads. Each thread has its own sockets, bound to the same addresses.
pub struct PartitionedSockets {
    threads: Vec<Sockets>,
    shortage: Option<DescriptorShortage>,
    watcher: Option<Watcher>,
}

impl PartitionedSockets {
    /// Opens the sockets of one thread per partition. The threads share the limits of connections.
    ///
    /// # Errors
    /// If a socket cannot be opened with its options.
    pub fn open(order: SocketsOrder, partitioning: &Partitioning) -> Result<Self, ServeError> {
        // A shared socket can be bound although another program has a shared socket at the same address. Therefore
        // exclusive sockets are opened first: they detect other programs, and the system chooses their ports.
        let whole = Sockets::open(order.clone())?;
        let shortage = whole.shortage();
        if partitioning.count() == 1 {
            return Ok(Self { threads: vec![whole], shortage, watcher: None });
        }
        let share = |most: usize| most.div_ceil(partitioning.count() as usize);
        let limits = Limits {
            connections: whole.most_connections().map(share),
            per_address: order.limits.per_address.map(share),
            per_group: order.limits.per_group.map(share),
            ..order.limits
        };
        let listen = whole.listens().iter().map(point).collect();
        drop(whole);
        let order = SocketsOrder { listen, limits, ..order };
        let common = CommonParts::new(&order)?;
        let ends = Handover::all(partitioning).map_err(kernel("eventfd"))?;
        let threads =
            ends.into_iter().map(|end| Sockets::open_partition(order.clone(), common.clone(), Some(end)));
        Ok(Self { threads: threads.collect::<Result<_, _>>()?, shortage, watcher: None })
    }

    /// As [`Sockets::shortage`].
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// As [`Sockets::listens`].
    pub fn listens(&self) -> &[(Transport, SocketAddr)] {
        self.threads.first().map_or(&[], Sockets::listens)
    }

    /// Calls `watcher` each second with the counts of all threads so far.
    #[must_use]
    pub fn watched(self, watcher: impl FnMut(&Tally) + Send + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..self }
    }

    /// Gives each thread its own tap, which gets all messages that the thread receives or sends.
    #[must_use]
    pub fn tapped(self, mut tap: impl FnMut() -> Box<dyn MessageTap>) -> Self {
        Self { threads: self.threads.into_iter().map(|thread| thread.tapped(tap())).collect(), ..self }
    }

    /// As [`Sockets::serve`]. `servers` has the server of each partition in order; each runs on its own thread. If one
    /// thread ends, all end. Returns the counts of all threads.
    ///
    /// # Errors
    /// As [`Sockets::serve`].
    pub fn serve(
        self,
        mut servers: Vec<Box<dyn Server>>,
        lasts: Option<Duration>,
        cancel: &AtomicBool,
    ) -> Result<Tally, ServeError> {
        assert_eq!(self.threads.len(), servers.len(), "one server for each partition");
        for place in 0..servers.len() {
            for change in servers[place].take_target_changes() {
                let others = servers.iter_mut().enumerate().filter(|(other, _)| *other != place);
                others.for_each(|(_, server)| server.handle_target_change(&change));
            }
        }
        let threads = match self.watcher {
            Some(watcher) => watched_together(self.threads, watcher),
            None => self.threads,
        };
        let has_ended = AtomicBool::new(false);
        let ends = [cancel, &has_ended];
        std::thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads.len());
            for (sockets, server) in threads.into_iter().zip(&mut servers) {
                handles.push(scope.spawn(move || {
                    let _all_end = SetAtEnd(ends[1]);
                    sockets.serve_until(server.as_mut(), lasts, &ends)
                }));
            }
            let mut all = Vec::with_capacity(handles.len());
            for handle in handles {
                match handle.join() {
                    Ok(done) => all.push(done?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(total(&all))
        })
    }
}

/// Sets a flag when it is dropped, at the end of a thread or when it panics.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets the watchers of the threads so that the first thread passes the counts of all threads to `watcher`.
fn watched_together(threads: Vec<Sockets>, watcher: Watcher) -> Vec<Sockets> {
    let so_far = Arc::new(Mutex::new(vec![Tally::default(); threads.len()]));
    let mut watcher = Some(watcher);
    let watched = |(place, sockets): (usize, Sockets)| {
        let (all, mut watcher) = (Arc::clone(&so_far), watcher.take());
        sockets.watched(move |tally| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all[place].clone_from(tally);
            watcher.iter_mut().for_each(|watcher| watcher(&total(&all)));
        })
    };
    threads.into_iter().enumerate().map(watched).collect()
}

fn point(&(transport, address): &(Transport, SocketAddr)) -> ListeningPoint {
    ListeningPoint { transport, address }
}

fn total(tallies: &[Tally]) -> Tally {
    let mut all = Tally::default();
    tallies.iter().for_each(|tally| all += tally);
    all
}
